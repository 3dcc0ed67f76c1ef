"""The line between parties: one outgoing TLS 1.3 connection of each to the relay, which carries frames."""
