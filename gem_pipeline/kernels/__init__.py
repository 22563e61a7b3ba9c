"""Operators on jagged tensors in plain PyTorch: no TorchRec, no FBGEMM, any device."""
