package workers

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes Workers. Agents has no default; with it, the rest may be zero.
type Config struct {
	// Agents are what is served, by the name under which runs ask for them. A
	// name is a token: letters, digits, "-" and "_", at most 64.
	Agents map[string]Agent

	// MaxSteps is how many steps a turn may have; one more fails the run.
	// Defaults to 50.
	MaxSteps int

	// Grace is how long a step may go on after Run was told to stop. What is not
	// committed by then is taken back by the next worker. Defaults to 5 seconds;
	// NoGrace is none.
	Grace time.Duration

	// Layout names subjects, streams and buckets. All programs of one Tailrace
	// share it.
	Layout subjects.Layout

	// Queue and Producer shape what lies below; their Layout and Log are filled
	// in, and Heads.
	Queue    commands.Config
	Producer producers.Config

	// Log hears what becomes of runs. Defaults to no log.
	Log *slog.Logger
}

// NoGrace as Config.Grace cuts steps at once.
const NoGrace time.Duration = -1

const defaultMaxSteps = 50

func (c Config) withDefaults() Config {
	if c.MaxSteps == 0 {
		c.MaxSteps = defaultMaxSteps
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Queue.Layout, c.Producer.Layout = c.Layout, c.Layout
	if c.Queue.Log == nil {
		c.Queue.Log = c.Log
	}
	if c.Producer.Log == nil {
		c.Producer.Log = c.Log
	}
	return c
}

func (c Config) validate() error {
	if len(c.Agents) == 0 {
		return errors.New("Agents is empty, want at least one")
	}
	for name, agent := range c.Agents {
		if err := subjects.CheckToken("agent type", name); err != nil {
			return fmt.Errorf("Agents: %w", err)
		}
		if agent == nil {
			return fmt.Errorf("Agents: %q is nil", name)
		}
	}
	if c.MaxSteps < 1 {
		return fmt.Errorf("MaxSteps is %d, want at least 1", c.MaxSteps)
	}
	if c.Grace < 0 && c.Grace != NoGrace {
		return fmt.Errorf("Grace is %s, want 0 or more, or NoGrace", c.Grace)
	}
	return nil
}
