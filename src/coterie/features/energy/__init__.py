"""What a run took in CPU time and bytes, and guesses of kWh and CO2e."""
