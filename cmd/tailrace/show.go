package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// sessionsFlags holds the flags of `tailrace sessions`.
type sessionsFlags struct {
	status string
	agent  string
	owner  string
	since  time.Time
	json   bool
}

func (f *sessionsFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.status, "status", "", "only sessions that are active, paused, ended or failed")
	flags.StringVar(&f.agent, "agent", "", "only sessions of this agent type")
	flags.StringVar(&f.owner, "owner", "", "only sessions of this subject")
	flags.Func("since", "only sessions that were saved from this `time` on, in RFC 3339, or within an age such as 1h", timeOrAge(&f.since))
	flags.BoolVar(&f.json, "json", false, "print a JSON line for each session")
}

func (f *sessionsFlags) check(config) error {
	if f.status != "" && !slices.Contains([]fold.Status{fold.Active, fold.Paused, fold.Ended, fold.Failed}, fold.Status(f.status)) {
		return fmt.Errorf("status is %q, want active, paused, ended or failed", f.status)
	}
	return nil
}

// runSessions lists the root sessions of the tenant, the last saved first.
func runSessions(ctx context.Context, t terminal, args []string) error {
	var f sessionsFlags
	return operate(ctx, t, "sessions", args, &f, func(b *app) error { return f.list(ctx, t.out, b) })
}

// sessionLine is a session as a JSON line, with the names of GET /v1/sessions.
type sessionLine struct {
	Session        string    `json:"session"`
	Status         string    `json:"status"`
	AgentType      string    `json:"agentType,omitempty"`
	Owner          string    `json:"owner,omitempty"`
	Origin         string    `json:"origin,omitempty"`
	Title          string    `json:"title,omitempty"`
	Error          string    `json:"error,omitempty"`
	Runs           int64     `json:"runs"`
	Messages       int64     `json:"messages"`
	Waits          int64     `json:"waits"`
	StreamSequence chunk.Seq `json:"streamSequence"`
	Created        time.Time `json:"created"`
	Saved          time.Time `json:"saved"`
}

func (f *sessionsFlags) list(ctx context.Context, out io.Writer, b *app) error {
	store, err := b.NewStore()
	if err != nil {
		return err
	}
	lines, table := json.NewEncoder(out), tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !f.json {
		fmt.Fprintln(table, "SESSION\tSTATUS\tAGENT\tOWNER\tRUNS\tMESSAGES\tSAVED\tTITLE")
	}
	q := projector.SessionQuery{Status: fold.Status(f.status), AgentType: f.agent, Owner: f.owner, Since: f.since, Limit: 1000}
	for {
		page, err := store.Sessions(ctx, b.cfg.Tenant, q)
		if err != nil {
			return errors.Join(err, table.Flush())
		}
		for _, s := range page.Sessions {
			l := sessionLine{
				Session: s.Session.ID, Status: string(s.Status), AgentType: s.AgentType, Owner: s.Owner, Origin: s.Origin, Title: s.Summary.Title,
				Runs: s.Summary.Runs, Messages: s.Summary.Messages, Waits: s.Summary.Approvals + s.Summary.ClientTools,
				StreamSequence: s.Position.Seq, Created: s.Created.UTC(), Saved: s.SavedAt.UTC(),
			}
			if s.Summary.Error != nil {
				l.Error = s.Summary.Error.Text
			}
			if !f.json {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Session, l.Status, oneLine(l.AgentType), oneLine(l.Owner), l.Runs, l.Messages, l.Saved.Format(time.RFC3339), oneLine(l.Title))
			} else if err := lines.Encode(l); err != nil {
				return err
			}
		}
		if err := table.Flush(); err != nil || page.Next == "" {
			return err
		}
		q.Before = page.Next
	}
}

// sessionArgument loads the configuration of a command whose only argument is a session of the tenant.
func sessionArgument(t terminal, name string, args []string, register func(*flag.FlagSet)) (config, chunk.Session, error) {
	cfg, rest, err := arguments(t, name, args, register)
	switch {
	case err != nil:
		return cfg, chunk.Session{}, err
	case len(rest) != 1:
		return cfg, chunk.Session{}, usageError{errors.New("want one session")}
	}
	if err := subjects.CheckID("session", rest[0]); err != nil {
		return cfg, chunk.Session{}, usageError{err}
	}
	return cfg, chunk.RootSession(cfg.Tenant, rest[0]), nil
}

// withSession runs a command about one session of the tenant.
func withSession(ctx context.Context, t terminal, role natsauth.Role, name string, args []string, register func(*flag.FlagSet), work func(b *app, r *projector.Reader, s chunk.Session) error) error {
	cfg, s, err := sessionArgument(t, name, args, register)
	if err != nil {
		return err
	}
	b, err := connectCommand(ctx, t, role, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	reader, store, err := b.NewReaders()
	if err != nil {
		return err
	}
	err = work(b, projector.NewReader(store, reader), s)
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = fmt.Errorf("tenant %q has no session %q: `tailrace sessions` lists those that it has", s.Tenant, s.ID)
	}
	return err
}

// runSnapshot prints a session as it is, or as it was at a position.
func runSnapshot(ctx context.Context, t terminal, args []string) error {
	var at chunk.Cursor
	var asJSON bool
	register := func(flags *flag.FlagSet) {
		flags.Func("at", "show the session as it was when the log ended at this `sequence`, which may have an anchor", parseCursor(&at))
		flags.BoolVar(&asJSON, "json", false, "print the snapshot as a line of JSON, with the members of GET /v1/sessions/{id}/snapshot")
	}
	return withSession(ctx, t, natsauth.Operator, "snapshot", args, register, func(_ *app, r *projector.Reader, s chunk.Session) (err error) {
		var snap fold.Snapshot
		if at.Seq == 0 {
			snap, err = r.Snapshot(ctx, s)
		} else {
			snap, err = r.SnapshotAt(ctx, s, at.Seq)
		}
		if err == nil && at.Anchor != 0 && snap.Position.Seq == at.Seq && snap.Anchor != 0 && snap.Anchor != at.Anchor {
			err = &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: at.Seq}
		}
		switch {
		case err != nil:
			return err
		case asJSON:
			page := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true, Timestamp: time.Now().UnixMilli()})
			_, err = t.out.Write(append(page.AppendJSON(nil), '\n'))
			return err
		}
		return printSnapshot(t.out, snap)
	})
}

// parseCursor returns a function that parses a sequence, or a cursor of a client.
func parseCursor(to *chunk.Cursor) func(string) error {
	return func(text string) error {
		c, ok := chunk.ParseCursor(text)
		if !ok {
			return errors.New("want a sequence such as 559, or a cursor such as 559-mwywb8jq")
		}
		*to = c
		return nil
	}
}

// printSnapshot prints the facts about a session and its messages as a table. The text is that of agents and users, so it has no control characters.
func printSnapshot(out io.Writer, snap fold.Snapshot) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "session\t%s\nstatus\t%s\nagent\t%s\nposition\t%s\n", snap.Session.ID, snap.Status, oneLine(snap.AgentType), chunk.Cursor{Seq: snap.Position.Seq, Anchor: snap.Anchor})
	if len(snap.State) > 0 {
		fmt.Fprintf(table, "state\t%s\n", oneLine(string(snap.State)))
	}
	for _, m := range snap.AllMessages() {
		if m.Hidden || m.Replaced {
			continue
		}
		name := string(m.Role)
		for i := range m.Parts {
			if text := partText(&m.Parts[i]); text != "" {
				fmt.Fprintf(table, "%s\t%s\n", name, text)
				name = ""
			}
		}
	}
	return table.Flush()
}

// partText returns a part of a message as one line, "" for a part without content.
func partText(p *fold.Part) string {
	switch c := p.Call; {
	case c != nil && c.Error != "":
		return oneLine("→ " + c.Name + " " + string(c.Input) + " ✗ " + c.Error)
	case c != nil:
		return oneLine("→ " + c.Name + " " + string(c.Input) + " ← " + cmp.Or(string(c.Output), string(c.State)))
	case p.Kind == fold.PartText:
		return oneLine(p.Text)
	case p.Kind == fold.PartReasoning:
		return oneLine("reasoning: " + p.Text)
	case p.Kind == fold.PartStepStart:
		return ""
	}
	return oneLine(string(p.Kind) + " " + string(p.AppendJSON(nil)))
}

// runOpen prints the URL of the page of a session, and opens it in a browser.
func runOpen(ctx context.Context, t terminal, args []string) error {
	var edge string
	register := func(flags *flag.FlagSet) {
		flags.StringVar(&edge, "edge", "", "`URL` of the edge; if empty, that of LISTEN on this machine")
	}
	return withSession(ctx, t, natsauth.Operator, "open", args, register, func(b *app, r *projector.Reader, s chunk.Session) error {
		if _, err := r.Head(ctx, s); err != nil {
			return err
		}
		page, err := b.cfg.pageURL(edge, s.ID)
		if err != nil {
			return usageError{err}
		}
		fmt.Fprintln(t.out, page)
		if browser := browserCommand(); browser != nil {
			if err := exec.Command(browser[0], append(browser[1:], page)...).Start(); err != nil { //nolint:gosec,noctx // a program of the system, which outlives this one
				fmt.Fprintln(t.err, "no browser opened:", err)
			}
		}
		return nil
	})
}

// pageURL returns the URL of the page of a session on an edge, or on the one of the settings.
func (c config) pageURL(edge, session string) (string, error) {
	at, err := url.Parse(cmp.Or(edge, edgeURL(c.TLSCert != "", c.Listen)))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return "", errors.New("edge: want a URL such as https://tailrace.example")
	}
	return at.Scheme + "://" + at.Host + strings.TrimRight(at.EscapedPath(), "/") + "/inspect/s/" + url.PathEscape(session), nil
}

// edgeURL returns the URL of a listener for clients on the same machine.
func edgeURL(secure bool, address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip.IsUnspecified()) {
		address = net.JoinHostPort("localhost", port)
	}
	if secure {
		return "https://" + address
	}
	return "http://" + address
}

// browserCommand returns the command that opens a URL, nil if there is none or no display.
func browserCommand() []string {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return nil
		}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil
	}
	return command
}
