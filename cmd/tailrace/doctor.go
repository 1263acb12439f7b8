package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/natsauth"
)

// runDoctor checks what this system needs of its NATS server and prints what it finds. It changes nothing.
func runDoctor(ctx context.Context, t terminal, args []string) error {
	var asJSON bool
	role := string(natsauth.Operator)
	cfg, err := flagsOnly(t, "doctor", args, func(flags *flag.FlagSet) {
		flags.BoolVar(&asJSON, "json", false, "print a JSON line per finding")
		flags.StringVar(&role, "role", role, "role of the credentials: for another one than operator, its permissions alone are checked")
	})
	if err != nil {
		return err
	}
	checked, err := natsauth.ParseRole(role)
	if err != nil {
		return usageError{err}
	}
	b, err := connect(checked, cfg, cfg.logger(t.err))
	if err != nil {
		return unreachableError{err}
	}
	defer b.close()
	d := &doctor{app: b, api: jsclient.New(b.js), out: t.out, json: asJSON}
	if err := d.checkConnection(ctx); err != nil {
		return unreachableError{err}
	}
	d.checkPermissions(ctx, checked)
	if checked == natsauth.Operator {
		d.checkStreams(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case d.err != nil:
		return d.err
	case d.problems > 0:
		return fmt.Errorf("%d problems", d.problems)
	}
	return nil
}

// unreachableError is an error of a command that cannot reach the server.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// level says how bad a finding is.
type level string

const (
	levelOK      level = "ok"
	levelNote    level = "note"    // the operator's decision
	levelWarning level = "warning" // works, within limits or for now
	levelProblem level = "problem" // a guarantee does not hold
)

// finding is one line of the output.
type finding struct {
	Level  level  `json:"level"`
	Check  string `json:"check"`            // connection, permissions, account, stream, setting, leader, replicas, clock, space, storage, durable or lag
	Object string `json:"object,omitempty"` // the stream, or the role
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// doctor collects the findings.
type doctor struct {
	*app

	api      *jsclient.Client
	out      io.Writer
	json     bool
	problems int

	clockShown bool   // a finding about a clock was reported
	account    string // use of its storage
	full       bool   // a finding about the storage of the account was reported
	err        error  // of out
}

func (d *doctor) report(f finding) {
	if f.Level == levelProblem {
		d.problems++
	}
	var err error
	if d.json {
		err = json.NewEncoder(d.out).Encode(f)
	} else {
		text := f.Text
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		_, err = fmt.Fprintf(d.out, "%-8s %-11s %-17s %s\n", f.Level, f.Check, f.Object, text)
	}
	d.err = errors.Join(d.err, err)
}

// doctorTimeout bounds each request, and the wait for the connection.
const doctorTimeout = 5 * time.Second

// checkConnection waits for the connection and checks the account. The error means that the server cannot be reached.
func (d *doctor) checkConnection(ctx context.Context) error {
	_, err := jsclient.Retry(ctx, jsclient.Policy{For: doctorTimeout, Conn: d.nc}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, d.nc.FlushWithContext(ctx)
	})
	if err != nil {
		if last := d.nc.LastError(); last != nil {
			err = last
		}
		return fmt.Errorf("connect to %s: %w", natsServer(d.nc), err)
	}
	rtt, err := d.nc.RTT()
	if err != nil {
		return fmt.Errorf("connect to %s: %w", natsServer(d.nc), err)
	}
	d.report(finding{
		Level: levelOK, Check: "connection",
		Text: fmt.Sprintf("%s, nats-server %s, round trip %s", d.nc.ConnectedUrlRedacted(), d.nc.ConnectedServerVersion(), rtt.Round(time.Microsecond)),
	})
	return nil
}
