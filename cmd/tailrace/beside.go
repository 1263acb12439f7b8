package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// The times of a command without a server: after the first one it prints a line, after the second one it ends.
const (
	reportNoServer = 2 * time.Second
	giveUpNoServer = 30 * time.Second
)

// awaitServer waits until the connection of a command is open.
func (b *app) awaitServer(ctx context.Context, t terminal, report, giveUp time.Duration) error {
	reach := func(within time.Duration) error {
		_, err := jsclient.Retry(ctx, jsclient.Policy{For: within, Conn: b.nc}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, b.nc.FlushWithContext(ctx)
		})
		return err
	}
	if reach(report) == nil {
		return nil
	}
	if ctx.Err() == nil {
		fmt.Fprintln(t.err, b.noServer(ctx))
	}
	err := reach(giveUp - report)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return unreachableError{fmt.Errorf("no connection to %s for %s", natsServer(b.nc), giveUp)}
}

// noServer says why there is no connection.
func (b *app) noServer(ctx context.Context) string {
	servers := natsServer(b.nc)
	first, _, _ := strings.Cut(string(servers), ",")
	if at, err := url.Parse(first); err == nil && at.Scheme == "nats" {
		if text, err := getText(ctx, "http://"+at.Host); err == nil && !strings.HasPrefix(text, "INFO ") {
			return fmt.Sprintf("%s is an HTTP server, as an edge is, and no NATS server: set TAILRACE_NATS_URL to the one of `tailrace up`, nats://127.0.0.1:%d", at.Host, b.cfg.NATSPort)
		}
	}
	if err := b.nc.LastError(); err != nil && !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
		if _, ok := errors.AsType[net.Error](err); !ok {
			return fmt.Sprintf("the NATS server at %s refuses the connection: %v", servers, err)
		}
	}
	return fmt.Sprintf("no NATS server at %s: start \"tailrace up\" or set TAILRACE_NATS_URL", servers)
}

// buildVersion matches the version of a process in its metrics.
var buildVersion = regexp.MustCompile(`(?m)^tailrace_build_info\{.*version="([\w.+-]{1,40})"`)

// inUse explains the error of a port that is in use: what uses it, and which flags start this process beside it. Another error is returned as it is.
func (c config) inUse(ctx context.Context, err error, isUp bool) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	version := ""
	if text, err := getText(ctx, "http://"+c.OpsListen+"/metrics"); err == nil {
		if found := buildVersion.FindStringSubmatch(text); found != nil {
			version = " (" + found[1] + ")"
		}
	}
	edge := edgeURL(false, c.Listen)
	uses := err.Error() + "; start this one with "
	if page, err := getText(ctx, edge); err == nil && strings.Contains(page, "<title>Tailrace</title>") {
		uses = "another tailrace" + version + " runs at " + edge + ": open it, or start this one with "
	} else if version != "" {
		uses = "another tailrace" + version + " uses " + c.OpsListen + ": start this one with "
	}
	return errors.New(uses + c.flagsBeside(ctx, isUp))
}

// flagsBeside returns the flags with which a process uses no port of another one with the same settings: each is ten higher, or more if one is in use.
func (c config) flagsBeside(ctx context.Context, isUp bool) string {
	var flags []string
	for higher := 10; higher <= 100; higher += 10 {
		free := true
		flags = nil
		add := func(name, address, format string) {
			host, port, err := net.SplitHostPort(address)
			number, wrong := strconv.Atoi(port)
			if err != nil || wrong != nil || number == 0 {
				return // any port
			}
			port = strconv.Itoa(number + higher)
			flags = append(flags, name+" "+fmt.Sprintf(format, host, port))
			listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
			if free = free && err == nil; err == nil {
				_ = listener.Close()
			}
		}
		add("--listen", c.Listen, "%s:%s")
		if isUp && !c.hasServer() {
			add("--nats-port", fmt.Sprintf("127.0.0.1:%d", c.NATSPort), "%[2]s")
		}
		add("--ops-listen", c.OpsListen, "%s:%s")
		if free {
			break
		}
	}
	if isUp && !c.hasServer() {
		flags = append(flags, "--data-dir "+c.DataDir+"2")
	}
	return strings.Join(flags, " ")
}

// getText returns the beginning of the response of a server, which may be any program.
func getText(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(text), err
}
