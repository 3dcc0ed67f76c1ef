"""Tables as people have them: read as text, looked at, and followed by a recipe that a person can edit."""
