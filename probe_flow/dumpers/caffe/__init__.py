"""Run a Caffe model by OpenCV, and write what every layer gives."""
