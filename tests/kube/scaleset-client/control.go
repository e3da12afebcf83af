package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// control is the side of the pretended GitHub that is not GitHub's: work is queued, faults are
// switched on, and what arrived is counted.
type control struct{ server string }

func (c control) do(ctx context.Context, method, path string, body, into any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+"/control"+path, sent)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("control %s %s: %s: %s", method, path, resp.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

type object = map[string]any

// queue queues jobs for a scale set of that organization.
func (c control) queue(ctx context.Context, org, label string, count int) error {
	return c.do(ctx, http.MethodPost, "/jobs", object{
		"labels": []string{label}, "count": count, "repository": org + "/app", "name": "build",
	}, nil)
}

// fault switches trouble on: a preset, or a rule of one's own.
func (c control) fault(ctx context.Context, rule object) error {
	return c.do(ctx, http.MethodPost, "/faults", rule, nil)
}

// heal ends all trouble, also when the check's own time is over.
func (c control) heal() {
	_ = c.do(context.Background(), http.MethodDelete, "/faults", nil, nil)
}

// on is a rule for one operation.
func on(operation string, action object, more object) object {
	rule := object{"match": object{"operations": []string{operation}}, "action": action}
	for key, value := range more {
		rule[key] = value
	}
	return rule
}

// calls is how often a client, known by its subsystem, has asked for an operation.
func (c control) calls(ctx context.Context, subsystem, operation string) (int, error) {
	var counted struct {
		ByClient map[string]map[string]int `json:"by_client"`
	}
	if err := c.do(ctx, http.MethodGet, "/calls", nil, &counted); err != nil {
		return 0, err
	}
	return counted.ByClient[subsystem][operation], nil
}

type job struct {
	ID       string  `json:"id"`
	State    string  `json:"state"`
	Result   string  `json:"result"`
	ScaleSet int     `json:"scale_set"`
	Runner   string  `json:"runner"`
	Started  float64 `json:"started_s"`
}

func (c control) jobs(ctx context.Context, scaleSetID int) ([]job, error) {
	var answer struct {
		Jobs []job `json:"jobs"`
	}
	if err := c.do(ctx, http.MethodGet, "/jobs", nil, &answer); err != nil {
		return nil, err
	}
	found := []job{}
	for _, each := range answer.Jobs {
		if each.ScaleSet == scaleSetID {
			found = append(found, each)
		}
	}
	return found, nil
}

// violations are what must never happen and did.
func (c control) violations(ctx context.Context) (int, error) {
	var answer struct {
		Violations []object `json:"violations"`
	}
	err := c.do(ctx, http.MethodGet, "/violations", nil, &answer)
	return len(answer.Violations), err
}
