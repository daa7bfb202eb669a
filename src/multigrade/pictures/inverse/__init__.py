"""Pictures that were blurred, thinned out or mapped by any linear operator, and how to come back without training."""
