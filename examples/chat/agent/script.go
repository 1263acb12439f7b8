package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// script is an agent with fixed answers.
type script struct {
	pace time.Duration
	hold string
}

// Answer is called again after each suspension and each takeover, so every scene continues from the number of
// committed steps.
func (s script) Answer(ctx context.Context, t *workers.Turn) error {
	input := t.Input()
	text := input[len(input)-1].Content
	switch {
	case strings.Contains(text, "tell"):
		return s.tell(ctx, t)
	case strings.Contains(text, "where"):
		return s.where(ctx, t)
	case strings.Contains(text, "delete"):
		return s.remove(ctx, t)
	case strings.Contains(text, "fail"):
		return s.fail(ctx, t)
	}
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		step.MarkFinal()
		return s.say(ctx, step, fmt.Sprintf("You said: %s. This is answer %.8s.", text, t.RunID()))
	})
}

// tell writes a long answer in two steps and pauses in the middle of the second.
func (s script) tell(ctx context.Context, t *workers.Turn) error {
	if t.Steps() == 0 {
		if err := t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
			return s.say(ctx, step, sentences(1, 10))
		}); err != nil {
			return err
		}
	}
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		step.MarkFinal()
		if err := s.say(ctx, step, sentences(11, 15)); err != nil {
			return err
		}
		if err := s.wait(ctx, t); err != nil {
			return err
		}
		return s.say(ctx, step, sentences(16, 25))
	})
}

func sentences(from, to int) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&b, "This is sentence %d. ", n)
	}
	return b.String()
}

// where calls a tool of the browser.
func (s script) where(ctx context.Context, t *workers.Turn) error {
	if t.Steps() == 0 {
		return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
			if err := s.say(ctx, step, "Let me ask your browser. "); err != nil {
				return err
			}
			call := step.ClientTool("where", "page_time_zone")
			if err := call.Args(ctx, "{}"); err != nil {
				return err
			}
			return call.AskClient(ctx, struct{}{}, time.Now().Add(10*time.Minute))
		})
	}
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		step.MarkFinal()
		return s.say(ctx, step, "Your clock says "+outcome(t)+".")
	})
}

// remove calls a tool that a user must approve.
func (s script) remove(ctx context.Context, t *workers.Turn) error {
	if t.Steps() == 0 {
		return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
			if err := s.say(ctx, step, "That needs your permission. "); err != nil {
				return err
			}
			return step.Tool("delete", "delete_files").AskApproval(ctx, map[string]int{"files": 3}, time.Now().Add(10*time.Minute))
		})
	}
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		step.MarkFinal()
		granted := step.ApprovedCalls()
		if len(granted) == 0 {
			return s.say(ctx, step, "The files stay where they are.")
		}
		for _, call := range granted {
			if err := call.End(ctx, map[string]int{"deleted": 3}); err != nil {
				return err
			}
		}
		if strings.Contains(t.Input()[0].Content, "slowly") {
			if err := s.wait(ctx, t); err != nil {
				return err
			}
		}
		return s.say(ctx, step, "The files are gone.")
	})
}

func (s script) fail(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		if err := s.say(ctx, step, "I begin, and then "); err != nil {
			return err
		}
		return &workers.Error{Message: "The model is on strike.", Code: "provider_unavailable", Cause: errors.New("as requested")}
	})
}

// say writes a text word by word, as a model does.
func (s script) say(ctx context.Context, step *workers.Step, text string) error {
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := pause(ctx, s.pace); err != nil {
			return err
		}
		if err := step.Text(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

// wait blocks until the file for the chat exists.
func (s script) wait(ctx context.Context, t *workers.Turn) error {
	for s.hold != "" {
		if _, err := os.Stat(filepath.Join(s.hold, url.QueryEscape(t.Session().ID))); err == nil {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcome returns the outcome of the last call.
func outcome(t *workers.Turn) string {
	messages := t.Messages()
	calls := messages[len(messages)-1].Calls()
	if len(calls) == 0 {
		return "nothing"
	}
	call := calls[len(calls)-1]
	if call.State != fold.CallDone {
		return call.Error
	}
	return string(call.Output)
}
