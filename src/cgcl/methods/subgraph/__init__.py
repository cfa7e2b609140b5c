"""Methods that look at the surroundings of each pair: SEAL and S3GRL."""
