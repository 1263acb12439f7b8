// Package outputtest keeps the output of what a test runs, and lets the test read it meanwhile.
package outputtest

import (
	"strings"
	"sync"
)

// Buffer is a strings.Builder for concurrent use. The zero Buffer is empty.
type Buffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
