package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rouse-run/rouse/e2e/framework"
)

// ofVictim stands for the victim's namespace in requests.
const ofVictim = "VICTIM"

// adminAttacks have all rights in the attacker's namespace, and a way to the admin API.
func adminAttacks() []attack {
	const letters, get, post = "/v1/deadletters", http.MethodGet, http.MethodPost
	return []attack{
		{"list another's dead letters", asTenant(get, letters+"?namespace="+ofVictim, "", "may not list")},
		{"list everybody's dead letters", asTenant(get, letters, "", "may not list")},
		{"read another's dead letter", asTenant(get, letters+"/1?namespace="+ofVictim, "", "may not get")},
		{"read a dead letter by its number alone", asTenant(get, letters+"/1", "", "may not get")},
		{"purge another's dead letters", asTenant(post, letters+"/purge", `{"namespace":"`+ofVictim+`"}`, "may not delete")},
		{"purge everybody's dead letters", asTenant(post, letters+"/purge", `{"all":true}`, "may not delete")},
		{"purge a dead letter by its number alone", asTenant(post, letters+"/purge", `{"sequence":1}`, "may not delete")},
		{"redrive another's dead letters", asTenant(post, letters+"/redrive", `{"namespace":"`+ofVictim+`"}`, "may not create")},
		{"follow another's events", asTenant(get, "/v1/events?follow=true&namespace="+ofVictim, "", "may not watch")},
		{"follow everybody's events", asTenant(get, "/v1/events?follow=true", "", "may not watch")},
		{"see what waits for another's Subscriptions", asTenant(get, "/v1/subscriptions?namespace="+ofVictim, "", "may not list")},
		{"use a publisher's token for dead letters", publishersToken},
		{"use a made up token for dead letters", forgedToken},
	}
}

// asTenant asks for something of the victim's as the attacker, who may do the same in its own namespace.
func asTenant(method, path, body, refusal string) func(context.Context, *stage) (string, error) {
	return func(ctx context.Context, s *stage) (string, error) {
		token, err := s.cluster.Tenant(ctx, s.attacker, "admin")
		if err != nil {
			return "", err
		}
		if err := s.awaitOwnRight(ctx, token); err != nil {
			return "", err
		}
		named := strings.NewReplacer(ofVictim, s.victim)
		status, answer, err := s.askAdmin(ctx, method, named.Replace(path), named.Replace(body), token)
		if err == nil && (status != http.StatusForbidden || !strings.Contains(answer, refusal)) {
			err = succeeded("the admin API answers %d %q", status, answer)
		}
		return "the eventbridge: " + answer, err
	}
}

// awaitOwnRight waits until the attacker's role is seen, without which it would be refused for nothing.
func (s *stage) awaitOwnRight(ctx context.Context, token string) error {
	return framework.Await(ctx, exposed, "the attacker's own right", func(ctx context.Context) (bool, error) {
		status, answer, err := s.askAdmin(ctx, http.MethodGet, "/v1/deadletters?namespace="+s.attacker, "", token)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, answer)
		}
		return err == nil, err
	})
}

// publishersToken is a tenant's, which is for events alone.
func publishersToken(ctx context.Context, s *stage) (string, error) {
	token, err := s.cluster.Tenant(ctx, s.attacker, "admin", "rouse-eventbridge")
	if err != nil {
		return "", err
	}
	return s.unauthenticated(ctx, token)
}

func forgedToken(ctx context.Context, s *stage) (string, error) {
	return s.unauthenticated(ctx, "e30.eyJhdWQiOiJyb3VzZS1hZG1pbiIsInN1YiI6InN5c3RlbTphZG1pbiJ9.c2ln")
}

func (s *stage) unauthenticated(ctx context.Context, token string) (string, error) {
	status, answer, err := s.askAdmin(ctx, http.MethodGet, "/v1/deadletters?namespace="+s.attacker, "", token)
	if err == nil && status != http.StatusUnauthorized {
		err = succeeded("the admin API answers %d %q", status, answer)
	}
	return "the eventbridge: " + answer, err
}

// askAdmin sends one request to the admin API, and returns what it says of an error.
func (s *stage) askAdmin(ctx context.Context, method, path, body, token string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, exposed) // a follower that is let in has no end
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.admin+path, strings.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("ask the admin API: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask the admin API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	const longest = 4 << 10
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return 0, "", fmt.Errorf("read the admin API's answer: %w", err)
	}
	var said struct{ Error string }
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = string(text)
	}
	return response.StatusCode, said.Error, nil
}
