package sinktest

import (
	"cmp"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// Config selects what the logs have.
type Config struct {
	Tenant   string // defaults to acme
	Name     string // of the root sessions, before a number; defaults to s
	Trees    int    // at least 1
	Records  int    // the number of actions, each of which writes one record or a few
	Cleanups bool   // also those of earlier runs and turns
	Partial  bool   // cleanups that begin within a step
	Deleted  bool   // sessions are deleted, and their ids used again
	Expired  bool   // sessions begin again at ordinal 1, because their records have expired
	Hostile  bool   // malformed bodies, unknown types, records of superseded writers, numbers out of range
	Fenced   bool   // records of superseded writers have the ordinal that the present one uses next, as in a real log
	Clocks   bool   // the clocks of writers go backwards
}

// Logs generates logs.
func Logs(c Config) *rapid.Generator[Log] {
	return rapid.Custom(func(t *rapid.T) Log {
		g := &generator{T: t, Config: c, clock: 1_000_000}
		for n := range max(1, c.Trees) {
			g.add(chunk.RootSession(cmp.Or(c.Tenant, "acme"), fmt.Sprint(cmp.Or(c.Name, "s"), n+1)), nil)
		}
		for range rapid.IntRange(1, max(1, c.Records)).Draw(t, "records") {
			g.session = g.sessions[g.pick("session", len(g.sessions))]
			g.act()
		}
		return g.log
	})
}

type generator struct {
	*rapid.T
	Config
	*session // that writes

	log      Log
	sessions []*session
	seq      chunk.Seq
	clock    int64
	names    int
}

// session is a session with its writer.
type session struct {
	key     chunk.Session
	parent  *chunk.Parent
	ordinal chunk.Ordinal
	epoch   chunk.Epoch
	step    int64
	run     string
	calls   []call
	inStep  bool
	written []written
}

type call struct{ id, tool, child string }

// written is a record of a session.
type written struct {
	index   int
	step    int64
	control bool
	removed bool
	turn    bool // opens a turn
	run     bool // begins a run
}

func (g *generator) add(key chunk.Session, parent *chunk.Parent) *session {
	s := &session{key: key, parent: parent}
	g.sessions = append(g.sessions, s)
	return s
}

func (g *generator) pick(what string, n int) int   { return rapid.IntRange(0, n-1).Draw(g.T, what) }
func (g *generator) oneIn(what string, n int) bool { return g.pick(what, n) == 0 }
func (g *generator) name(prefix string) string {
	g.names++
	return fmt.Sprintf("%s%d", prefix, g.names)
}

func of[T any](g *generator, what string, list ...T) T { return list[g.pick(what, len(list))] }

// maybe returns a value, or nil.
func maybe[T any](g *generator, what string, list ...T) *T {
	if g.oneIn("no "+what, 3) {
		return nil
	}
	return new(of(g, what, list...))
}

func (g *generator) write(body chunk.Body, extra ...chunk.Member) {
	if g.Clocks && g.oneIn("clock", 8) {
		g.clock += int64(g.pick("jump", 400)) - 200
	}
	g.clock += int64(g.pick("time", 30))
	c := chunk.Chunk{AgentID: g.key.ID, AgentType: of(g, "agent", "planner", "coder"), Timestamp: g.clock, Step: g.step, Body: body, Extra: extra}
	if g.oneIn("no clock", 30) {
		c.Timestamp = 0
	}
	data, err := c.AppendJSON(nil)
	if err != nil {
		g.Fatalf("%T: %v", body, err)
	}
	g.raw(c.Type(), g.epoch, data)
}

func (g *generator) raw(typ chunk.Type, epoch chunk.Epoch, data []byte) {
	g.seq += chunk.Seq(1 + g.pick("gap", 2))
	g.ordinal++
	g.written = append(g.written, written{index: len(g.log), step: g.step, control: typ.Control()})
	g.log = append(g.log, chunk.Record{
		Seq: g.seq, Session: g.key, Epoch: epoch, Ordinal: g.ordinal, Type: typ, StoredAt: time.UnixMilli(2_000_000 + int64(g.seq)/2), Data: data,
	})
}

// act writes the records of one action.
func (g *generator) act() {
	if g.run == "" && !g.oneIn("import", 15) {
		g.start("execute")
		return
	}
	switch k := g.pick("act", 100); {
	case k < 14:
		g.text()
	case k < 24:
		g.stepwise()
	case k < 46:
		g.tool()
	case k < 54:
		g.approval()
	case k < 60:
		g.subAgent()
	case k < 74:
		g.course()
	case k < 80:
		g.runs()
	case k < 84:
		g.others()
	case k < 94 && g.Cleanups:
		g.cleanUp()
	case k < 96 && g.Hostile:
		g.hostile()
	case k < 98 && g.Deleted:
		g.delete()
	case k < 99 && g.Expired:
		g.expire()
	default:
		g.text()
	}
}

func (g *generator) text() {
	switch g.pick("text", 5) {
	case 0:
		g.write(chunk.Thinking{Content: "hm", IsComplete: g.oneIn("complete", 2)})
	case 1:
		g.write(chunk.ToolArgStreamDelta{ToolCallID: "c", Delta: "{"})
	default:
		for range 1 + g.pick("deltas", 3) {
			g.write(chunk.TextDelta{Delta: of(g, "delta", "canary a ", "é\"", "", "\xed\xa0\xbd", "\xed\xb8\x80", "\x00")})
		}
	}
}

func (g *generator) stepwise() {
	if !g.inStep && !g.oneIn("stepless", 6) {
		g.step++
		g.inStep = true
		b := chunk.StepStart{}
		if g.oneIn("started", 2) {
			b.StartedAt = new(g.clock + int64(g.pick("before", 300)) - 250)
		}
		g.write(b, g.extra()...)
		return
	}
	g.inStep = false
	g.write(chunk.StepEnd{
		Usage: g.usage(), FinishReason: maybe(g, "reason", "stop", "tool-calls"), Model: maybe(g, "model", "m1", "m2"),
		RequestModel: maybe(g, "requested", "m1"), Provider: maybe(g, "provider", "openai"),
	})
}

func (g *generator) usage() *chunk.Usage {
	if g.oneIn("no usage", 4) {
		return nil
	}
	number := func(what string) chunk.Number {
		if g.Hostile {
			return of[chunk.Number](g, what, "7", "3.9", "-4", "1e300", "9007199254740993", "0")
		}
		return of[chunk.Number](g, what, "7", "12")
	}
	u := &chunk.Usage{InputTokens: number("input"), OutputTokens: number("output"), Cost: maybe(g, "cost", "0.25", "0.000000001", "999999999.999999999999999999")}
	if g.oneIn("details", 2) {
		u.CachedTokens, u.ReasoningTokens, u.CacheWriteTokens = new(number("cached")), new(number("reasoning")), maybe(g, "written", number("written"))
	}
	if g.oneIn("currency", 4) {
		u.Currency = new("EUR")
	}
	return u
}

// extra returns members that the schema does not have.
func (g *generator) extra() []chunk.Member {
	switch g.pick("extra", 6) {
	case 0:
		return []chunk.Member{{Name: "deadline", Value: chunk.Value(of(g, "deadline", "1760000000000", `"soon"`, "-1"))}}
	case 1:
		return []chunk.Member{{Name: `a"b`, Value: chunk.Value(`{"canary":1}`)}}
	}
	return nil
}
