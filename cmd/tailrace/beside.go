package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// awaitServer waits until the connection of a command is open.
func (b *app) awaitServer(ctx context.Context, t terminal, report, giveUp time.Duration) error {
	err := jsclient.AwaitServer(ctx, b.nc, natsServer(b.nc).String(), report, giveUp, func(why string) { fmt.Fprintln(t.err, why) })
	if errors.Is(err, jsclient.ErrNoServer) {
		err = unreachableError{err}
	}
	return err
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
