// Command program stands for the binary in the test of the image.
package main

func main() {}
