"""What a target is compared with besides other targets, each as a black box of the same shape."""
