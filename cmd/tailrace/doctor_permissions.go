package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/natsauth"
)

// userInfo is the part of the response to natsauth.UserInfoSubject that is needed.
type userInfo struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Data struct {
		User        string `json:"user"`
		Permissions *struct {
			Publish   jwt.Permission `json:"publish"`
			Subscribe jwt.Permission `json:"subscribe"`
		} `json:"permissions"`
	} `json:"data"`
}

// checkPermissions compares the permissions of the user with those that its role needs.
func (d *doctor) checkPermissions(ctx context.Context, role natsauth.Role) {
	const remedy = "print them again with `tailrace nats-auth print` and give them to the user"
	cfg := d.cfg.natsAuth()
	cfg.Domain, cfg.InboxPrefix = d.domain, d.nc.Opts.InboxPrefix
	want, err := natsauth.Of(role, cfg)
	if err != nil {
		d.report(finding{Level: levelProblem, Check: "permissions", Text: err.Error()})
		return
	}
	have, user, err := d.userPermissions(ctx)
	if err != nil {
		d.report(finding{Level: levelWarning, Check: "permissions", Text: fmt.Sprintf("the server does not return them: %v", err), Remedy: remedy})
		return
	}
	publish, subscribe := natsauth.Missing(want, have)
	for _, subject := range publish {
		d.report(finding{Level: levelProblem, Check: "permissions", Object: string(role), Text: "may not publish to " + subject, Remedy: remedy})
	}
	for _, subject := range subscribe {
		d.report(finding{Level: levelProblem, Check: "permissions", Object: string(role), Text: "may not subscribe to " + subject, Remedy: remedy})
	}
	if len(publish)+len(subscribe) == 0 {
		text := "the user " + user + " has those of the role"
		if have == nil {
			text = "the user " + user + " has all permissions"
		}
		d.report(finding{Level: levelOK, Check: "permissions", Object: string(role), Text: text})
	}
}

// userPermissions returns the permissions of the user of the connection, nil if it may do everything, and its name.
func (d *doctor) userPermissions(ctx context.Context) (*jwt.Permissions, string, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	info, err := d.requestUserInfo(ctx)
	if err != nil {
		return nil, "", err
	}
	p := info.Data.Permissions
	if p == nil {
		return nil, info.Data.User, nil
	}
	return &jwt.Permissions{Pub: p.Publish, Sub: p.Subscribe}, info.Data.User, nil
}

// requestUserInfo repeats the request, because the server reports a missing permission to the connection and the request gets no response. Behind a leaf node the other
// server responds too, with the permissions of the leaf node.
func (d *doctor) requestUserInfo(ctx context.Context) (info userInfo, err error) {
	inbox := d.nc.NewInbox()
	responses, err := d.nc.SubscribeSync(inbox)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, responses.Unsubscribe()) }()
	for {
		if err := d.nc.PublishRequest(natsauth.UserInfoSubject, inbox, nil); err != nil {
			return info, err
		}
		attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		info, err = d.ownUserInfo(attempt, responses)
		cancel()
		if last := d.nc.LastError(); err != nil && errors.Is(last, nats.ErrPermissionViolation) {
			return info, last
		}
		if err == nil || ctx.Err() != nil {
			return info, err
		}
	}
}

// ownUserInfo returns the response of the server of the connection.
func (d *doctor) ownUserInfo(ctx context.Context, responses *nats.Subscription) (userInfo, error) {
	for {
		response, err := responses.NextMsgWithContext(ctx)
		if err != nil {
			return userInfo{}, err
		}
		var info userInfo
		if err := json.Unmarshal(response.Data, &info); err != nil || info.Server.ID == d.nc.ConnectedServerId() {
			return info, err
		}
	}
}
