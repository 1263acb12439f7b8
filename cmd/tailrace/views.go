package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/tailrace/tailrace/sseedge"
)

// views reads the file of views. It returns nil if the setting is empty.
func (c config) views() (*sseedge.Views, error) {
	if c.Views == "" {
		return nil, nil //nolint:nilnil // no views is a nil *sseedge.Views, which works
	}
	text, err := os.ReadFile(c.Views)
	if err != nil {
		return nil, usageError{fmt.Errorf("views: %w", err)}
	}
	views, err := sseedge.ReadViews(bytes.NewReader(text))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.Views, err)}
	}
	return views, nil
}
