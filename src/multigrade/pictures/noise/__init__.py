"""What the noise of a picture is like, from the picture alone."""
