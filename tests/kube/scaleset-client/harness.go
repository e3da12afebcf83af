package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/actions/scaleset"
)

const checkMax = 60 * time.Second

// suite runs the checks one after the other and says how each ended.
type suite struct {
	world
	out    *json.Encoder
	ran    int
	failed int
	places int
}

type outcome struct {
	Check   string  `json:"check"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Problem string  `json:"problem,omitempty"`
}

// check runs one check under a deadline. What it expects is in its name.
func (s *suite) check(name string, work func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkMax)
	defer cancel()
	begun := time.Now()
	err := guarded(ctx, work)
	s.ran++
	result := outcome{Check: name, OK: err == nil, Seconds: time.Since(begun).Seconds()}
	if err != nil {
		s.failed++
		result.Problem = err.Error()
	}
	if err := s.out.Encode(result); err != nil {
		panic(err)
	}
}

func guarded(ctx context.Context, work func(ctx context.Context) error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	return work(ctx)
}

// place is an organization that no other check uses: what is made in it is seen by nobody else.
func (s *suite) place(server string) (base, org string) {
	s.places++
	org = fmt.Sprintf("org-%d", s.places)
	return server, org
}

// quick keeps the waits between tries short; the number of tries is the default.
func quick(more ...scaleset.HTTPOption) []scaleset.HTTPOption {
	return append([]scaleset.HTTPOption{scaleset.WithRetryWaitMax(20 * time.Millisecond)}, more...)
}

// client makes a client for the organization; its calls are counted under `subsystem`.
func (s *suite) client(url, subsystem string, options ...scaleset.HTTPOption) (*scaleset.Client, error) {
	return scaleset.NewClientWithPersonalAccessToken(scaleset.NewClientWithPersonalAccessTokenConfig{
		GitHubConfigURL:     url,
		PersonalAccessToken: s.Token,
		SystemInfo:          info(subsystem),
	}, quick(options...)...)
}

func info(subsystem string) scaleset.SystemInfo {
	return scaleset.SystemInfo{
		System:    "runnerscale-judge",
		Version:   "0.0.0",
		CommitSHA: "none",
		Subsystem: subsystem,
	}
}

// setup is a client with a scale set of its own in an organization of its own.
type setup struct {
	*suite
	server string
	org    string
	name   string // of the scale set, and the label its jobs ask for
	client *scaleset.Client
	set    *scaleset.RunnerScaleSet
}

func (s *suite) ready(ctx context.Context, server, subsystem string, options ...scaleset.HTTPOption) (*setup, error) {
	base, org := s.place(server)
	client, err := s.client(base+"/"+org, subsystem, options...)
	if err != nil {
		return nil, err
	}
	name := "set-" + org
	set, err := client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{Name: name, RunnerGroupID: 1})
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return &setup{suite: s, server: base, org: org, name: name, client: client, set: set}, nil
}

func (u *setup) session(ctx context.Context, options ...scaleset.HTTPOption) (*scaleset.MessageSessionClient, error) {
	return u.client.MessageSessionClient(ctx, u.set.ID, "judge", options...)
}

func (u *setup) jit(ctx context.Context, name string) (*scaleset.RunnerScaleSetJitRunnerConfig, error) {
	return u.client.GenerateJitRunnerConfig(ctx, &scaleset.RunnerScaleSetJitRunnerSetting{Name: name}, u.set.ID)
}

// must is for values that a check cannot do without.
func want[T comparable](what string, got, wanted T) error {
	if got != wanted {
		return fmt.Errorf("%s is %v, not %v", what, got, wanted)
	}
	return nil
}

// refused says whether an error is there and says all of these.
func refused(err error, says ...string) error {
	if err == nil {
		return errors.New("no error, although one is due")
	}
	for _, each := range says {
		if !strings.Contains(err.Error(), each) {
			return fmt.Errorf("the error does not say %q: %w", each, err)
		}
	}
	return nil
}

// typed says whether an error is of the client's own kind.
func typed(err, kind error) error {
	if !errors.Is(err, kind) {
		return fmt.Errorf("not %q but %v", kind, err)
	}
	return nil
}

func all(problems ...error) error {
	return errors.Join(problems...)
}

func file(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(text)
}
