package workers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

var noAgent = map[string]Agent{"a": AgentFunc(func(context.Context, *Turn) error { return nil })}

// The error of an invalid Config names the field.
func TestConfigErrors(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Agents is empty":                     {},
		"Agents: agent type":                  {Agents: map[string]Agent{"a b": noAgent["a"]}},
		`Agents: "b" is nil`:                  {Agents: map[string]Agent{"b": nil}},
		"Layout: ":                            {Agents: noAgent, Layout: subjects.Layout{Prefix: "a b"}},
		"Lease is 99ms, want at least 100ms":  {Agents: noAgent, Lease: 99 * time.Millisecond},
		"Lease is -1ns, want at least 100ms":  {Agents: noAgent, Lease: Off},
		"Concurrency is -1, want at least 1":  {Agents: noAgent, Concurrency: Off},
		"RetryDelay is -1ns, want more than":  {Agents: noAgent, RetryDelay: Off},
		"RetryDelay is 31s, want more than 0": {Agents: noAgent, RetryDelay: 31 * time.Second},
		"RetryTimeout is -1ns, want more":     {Agents: noAgent, RetryTimeout: Off},
	} {
		if err := cfg.withDefaults().validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("err = %v, want prefix %q", err, want)
		}
	}
}

// A negative value switches a limit or a delay off.
func TestConfigOff(t *testing.T) {
	cfg := Config{Agents: noAgent, MaxSteps: Off, ShutdownTimeout: Off, Pace: Off}.withDefaults()
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	if got := cfg.producer(producers.NoPositions).Pace; got != producers.Off {
		t.Errorf("pace %s, want that it is off", got)
	}
	w := &Workers{cfg: cfg}
	ctx, cancel := context.WithCancel(t.Context())
	own, end := w.withShutdownTimeout(ctx)
	defer end()
	if own.Err() != nil {
		t.Error("write context ended before the shutdown")
	}
	cancel()
	<-own.Done()
}
