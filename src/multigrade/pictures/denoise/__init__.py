"""Estimates of a picture without its noise: from like patches, by trained convolutions, for each kind of noise."""
