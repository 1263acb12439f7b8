//go:build !race

// The writers start no goroutine: the race detector would find nothing, and takes ten times as long. The target unit runs these tests without it.

package turnequal_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/kortyx"
	"github.com/tailrace/tailrace/codec/mastra"
	oldaisdk "github.com/tailrace/tailrace/internal/testkit/oldturn/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// config draws logs of up to three turns: with what workers write, or with all that a log may have.
func config(t *rapid.T) turntest.Config {
	return turntest.Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true, Wide: rapid.IntRange(0, 2).Draw(t, "wide") > 0}
}

// writers returns a writer of the present packages for a turn.
var writers = map[string]func(turnequal.Turn) turnequal.Writer{
	turnequal.AGUI: func(of turnequal.Turn) turnequal.Writer {
		w := agui.New(of.ID, agui.Options(of.AGUI))
		if of.Omitted != nil {
			w.Omit(of.Omitted...)
		}
		return w
	},
	turnequal.AISDK: func(of turnequal.Turn) turnequal.Writer {
		return turnequal.MessageOf(aisdk.New(of.ID, aisdkOptions(of.AISDK)))
	},
	turnequal.Kortyx: func(of turnequal.Turn) turnequal.Writer { return kortyx.NewWriter(kortyx.Options(of.Kortyx)) },
	turnequal.Mastra: func(of turnequal.Turn) turnequal.Writer {
		return mastra.NewWriter(mastra.WriterConfig{MessageID: of.ID})
	},
}

// aisdkOptions returns the options of the present package.
func aisdkOptions(o oldaisdk.Options) aisdk.Options {
	metadata := func(f func(oldaisdk.Meta) chunk.Value) func(aisdk.Meta) chunk.Value {
		if f == nil {
			return nil
		}
		return func(m aisdk.Meta) chunk.Value { return f(oldaisdk.Meta(m)) }
	}
	opt := aisdk.Options{
		Major: o.Major, SubAgents: aisdk.SubAgentContent(o.SubAgents), NoSteps: o.NoSteps, ClientTool: o.ClientTool,
		StartMetadata: metadata(o.StartMetadata), StepMetadata: metadata(o.StepMetadata), FinishMetadata: metadata(o.FinishMetadata),
	}
	if o.ErrorText != nil {
		opt.ErrorText = func(f aisdk.Failure) string { return o.ErrorText(oldaisdk.Failure(f)) }
	}
	return opt
}

// known are the differences between the old writers and the machine. Each dialect has a file with its own.
var known = slices.Concat(knownAGUI, knownAISDK, knownKortyx, knownMastra)

// TestEqual checks that the writers of the present packages write what their copies write.
func TestEqual(t *testing.T) {
	for dialect, now := range writers {
		t.Run(dialect, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				turnequal.Check(t, dialect, config(t), known, now)
			})
		})
	}
}
