"""What a program would take on a mesh of devices that is not there."""
