"""One meta-gradient, timed side by side: `make bench`."""
