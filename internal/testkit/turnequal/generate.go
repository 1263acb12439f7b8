package turnequal

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/agui"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/kortyx"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/mastra"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
)

// Turn is what a writer needs to know of a turn besides its records. The options are those of the old writers.
type Turn struct {
	ID string // of the answer

	AGUI    agui.Options
	Omitted []string // calls whose results the client of AG-UI has sent
	AISDK   aisdk.Options
	Mastra  mastra.WriterConfig
	Kortyx  kortyx.Options
}

// String returns the options for an error.
func (o Turn) String() string {
	return fmt.Sprintf("id %q, state %s, client tools %t; AG-UI: sub-agents %t, omitted %d; AI SDK: version %d, sub-agents %d, no steps %t, metadata %t %t %t, error text %t",
		o.ID, o.AGUI.State, o.AGUI.ClientTool != nil, o.AGUI.SubAgents, len(o.Omitted), o.AISDK.Major, o.AISDK.SubAgents, o.AISDK.NoSteps,
		o.AISDK.StartMetadata != nil, o.AISDK.StepMetadata != nil, o.AISDK.FinishMetadata != nil, o.AISDK.ErrorText != nil)
}

// Old returns the old writer of a turn in a dialect.
func Old(dialect string, of Turn) Writer { return old(dialect)(of) }

// old returns the old writer of a dialect.
func old(name string) func(Turn) Writer {
	switch name {
	case AGUI:
		return func(of Turn) Writer {
			w := agui.New(of.ID, of.AGUI)
			w.Omit(of.Omitted...)
			return w
		}
	case AISDK:
		return func(of Turn) Writer { return MessageOf(aisdk.New(of.ID, of.AISDK)) }
	case Kortyx:
		return func(of Turn) Writer { return kortyx.NewWriter(of.Kortyx) }
	case Mastra:
		return func(of Turn) Writer { return mastra.NewWriter(of.Mastra) }
	}
	panic("there is no dialect " + name)
}

// list has the turns of a log. It has a short text in the reports of rapid: the error has the rest.
type list []*Case

// GoString returns the number of turns and records.
func (l list) GoString() string {
	n := 0
	for _, c := range l {
		n += len(c.Log)
	}
	return fmt.Sprintf("%d turns with %d records", len(l), n)
}

// cases generates the turns of a log.
func cases(dialect string, config turntest.Config) *rapid.Generator[list] {
	return rapid.Custom(func(t *rapid.T) list {
		log := turntest.Logs(config).Draw(t, "log")
		hidden, shown := hide(t, log)
		begins := turns(log)
		if rapid.IntRange(0, 9).Draw(t, "lost") == 9 { // retention has removed the first records of the turn
			begins[0] += rapid.IntRange(0, max(0, begins[min(1, len(begins)-1)]-1)).Draw(t, "first")
		}
		var out list
		for i, begin := range begins {
			end := len(log)
			if i+1 < len(begins) {
				end = min(end, begins[i+1]+rapid.IntRange(0, 4).Draw(t, "of the next turn"))
			}
			out = append(out, &Case{
				Dialect: dialect, Turn: options(t), seed: rapid.Uint64().Draw(t, "seed"), Log: log[begin:end], Hidden: hidden[begin:end], Shown: shown[begin:end],
			})
		}
		return out
	})
}

// turns returns the indexes of the records that open turns, and of the first record.
func turns(log turntest.Log) []int {
	begins := []int{0}
	var turns dialect.Turns
	for i := range log {
		if log[i].Session != turntest.Session {
			continue
		}
		if opens, _ := turns.Opens(&log[i]); opens && i > 0 {
			begins = append(begins, i)
		}
	}
	return begins
}

// hide returns which records a client does not see, and what it sees of the others: it sees all, what a random view shows, or any.
func hide(t *rapid.T, log turntest.Log) (hidden []bool, shown turntest.Log) {
	hidden, shown = make([]bool, len(log)), make(turntest.Log, len(log))
	copy(shown, log)
	switch rapid.IntRange(0, 4).Draw(t, "view") {
	case 3:
		chat := viewtest.Views().Draw(t, "view of a chat").Chat()
		for i, rec := range log {
			of, ok := chat.Record(rec)
			hidden[i], shown[i] = !ok, of
		}
	case 4:
		for i, rec := range log {
			if rec.Session != turntest.Session || !rec.Type.Control() {
				hidden[i] = rapid.IntRange(0, 5).Draw(t, "hidden") == 5
			}
		}
	}
	return hidden, shown
}

// options generates the options of a turn.
func options(t *rapid.T) Turn {
	flag := func(what string, n int) bool { return rapid.IntRange(0, n-1).Draw(t, what) == n-1 }
	of := Turn{ID: rapid.SampledFrom([]string{"msg-1", "msg-4", "msg-12", "é\"\n"}).Draw(t, "id")}
	var client func(string) bool
	if !flag("no client tools", 4) {
		client = turntest.IsClientTool
	}
	state := rapid.SampledFrom([]chunk.Value{nil, chunk.Value(`{}`), chunk.Value(`{"a":[1],"b":{"c":"x"}}`)}).Draw(t, "state")
	of.AGUI = agui.Options{State: state, SubAgents: flag("sub-agents", 2), ClientTool: client}
	if flag("omits", 3) {
		for i := range 6 {
			of.Omitted = append(of.Omitted, fmt.Sprintf("c%d", i), fmt.Sprintf("q%d", i), dialect.CallID(fmt.Sprintf("k%d", i), fmt.Sprintf("q%d", i)))
		}
	}
	of.AISDK = aisdk.Options{
		Major: rapid.SampledFrom([]int{0, 6, 7}).Draw(t, "major"), ClientTool: client, NoSteps: flag("no steps", 8),
		SubAgents: rapid.SampledFrom([]aisdk.SubAgentContent{aisdk.Drop, aisdk.Inline, aisdk.Data}).Draw(t, "content of sub-agents"),
	}
	for _, f := range []*func(aisdk.Meta) chunk.Value{&of.AISDK.StartMetadata, &of.AISDK.StepMetadata, &of.AISDK.FinishMetadata} {
		if flag("metadata", 3) {
			*f = metadata
		}
	}
	if flag("error text", 3) {
		of.AISDK.ErrorText = func(f aisdk.Failure) string { return "[" + f.Code + "] " + f.Text }
	}
	of.Mastra = mastra.WriterConfig{MessageID: of.ID}
	of.Kortyx = kortyx.Options{State: state}
	return of
}

// metadata returns all that a metadata function gets.
func metadata(m aisdk.Meta) chunk.Value {
	o := rawjson.Begin(nil)
	o.String("meta", fmt.Sprintf("%+v", m))
	return o.End()
}
