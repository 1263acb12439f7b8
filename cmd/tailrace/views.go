package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/tailrace/tailrace/sseedge/view"
)

// views reads the file of views. It returns nil if the setting is empty.
func (c config) views() (_ *view.Views, err error) {
	if c.Views == "" {
		return nil, nil //nolint:nilnil // no views is a nil *view.Views, which works
	}
	file, err := os.Open(c.Views)
	if err != nil {
		return nil, usageError{fmt.Errorf("views: %w", err)}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cfg, err := view.Read(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.Views, err)}
	}
	views, err := view.New(cfg)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.Views, err)}
	}
	return views, nil
}
