"""Models of several views that agree: `spectrem.Views`."""
