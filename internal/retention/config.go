package retention

import (
	"fmt"
	"time"

	"github.com/tailrace/tailrace/subjects"
)

// retryTimeout is the retry budget of a write or purge, for example while the stream has no leader.
const retryTimeout = 10 * time.Second

// checkLayout returns an error that begins with the name of the field.
func checkLayout(l subjects.Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	return nil
}
