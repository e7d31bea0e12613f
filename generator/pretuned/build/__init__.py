"""Building: the steps from a project to its generated packages, and the front ends that ask for them."""
