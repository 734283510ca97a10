"""Message sockets between tasks of a world, with libzmq's rules of delivery and loss."""
