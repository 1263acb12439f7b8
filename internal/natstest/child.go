package natstest

import (
	"io"
)

const childVariable = "TAILRACE_NATSTEST_SERVER"

func runChild(string, io.Reader, io.Writer) int { return 1 }
