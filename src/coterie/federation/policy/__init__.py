"""What a site takes part in: every key of its policy, and the rules that messages are held to."""
