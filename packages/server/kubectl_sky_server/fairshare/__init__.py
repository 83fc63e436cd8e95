"""The fairshare controller: priorities of Volcano that fall with use."""
