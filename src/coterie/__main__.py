"""python -m coterie"""

import sys

from coterie.cli.main import main

sys.exit(main())
