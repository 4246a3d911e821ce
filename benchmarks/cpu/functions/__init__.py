"""What each kind of row computes, once for each library; all take arguments in the same layout."""
