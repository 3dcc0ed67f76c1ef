"""Side by side: the same work by our engines, by a plain PyTorch loop and by a lean one."""
