"""The processes of a server: started, told apart, struck, starved and looked at from outside."""
