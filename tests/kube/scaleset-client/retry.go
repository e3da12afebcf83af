package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/actions/scaleset"
	"github.com/hashicorp/go-retryablehttp"
)

// retryChecks: what GitHub says no with, and when the client asks again.
func retryChecks(s *suite) {
	s.check("retry: 429 with Retry-After waits as long as it says, then succeeds", func(ctx context.Context) error {
		begun := time.Now()
		calls, err := s.under(ctx, "retry-after", object{
			"status": 429, "body": `{"message":"slow down"}`, "headers": object{"Retry-After": "1"},
		}, object{"times": 2})
		if since := time.Since(begun); since < 2*time.Second || since > 5*time.Second {
			return fmt.Errorf("it took %v", since)
		}
		return all(err, want("attempts", calls, 3))
	})
	s.check("retry: 503 twice, then success; 502 ignores Retry-After", func(ctx context.Context) error {
		calls, err := s.under(ctx, "twice-503", object{"status": 503, "body": "down"}, object{"times": 2})
		if err := all(err, want("attempts", calls, 3)); err != nil {
			return err
		}
		begun := time.Now()
		calls, err = s.under(ctx, "once-502", object{"status": 502, "headers": object{"Retry-After": "30"}}, object{"times": 1})
		return all(err, want("attempts", calls, 2), want("waited for it", time.Since(begun) > 10*time.Second, false))
	})
	s.check("retry: 503 for ever is given up after five attempts, or as many as were asked for", func(ctx context.Context) error {
		calls, err := s.under(ctx, "for-ever", object{"status": 503}, nil)
		if err := all(refused(err, "giving up after 5 attempt(s)"), want("attempts", calls, 5)); err != nil {
			return err
		}
		calls, err = s.under(ctx, "for-ever-once", object{"status": 503}, nil, scaleset.WithRetryMax(0))
		return all(refused(err, "giving up after 1 attempt(s)"), want("attempts", calls, 1))
	})
	s.check("retry: 400, 403, 404, 409 and 501 are asked once", func(ctx context.Context) error {
		for _, status := range []int{400, 403, 404, 409, 501} {
			calls, err := s.under(ctx, fmt.Sprintf("once-%d", status), object{"status": status, "body": `{"message":"no"}`}, nil)
			if err := all(refused(err, fmt.Sprint(status), "no"), want("attempts", calls, 1)); err != nil {
				return err
			}
		}
		return nil
	})
	s.check("retry: a connection cut before the answer is tried again", func(ctx context.Context) error {
		calls, err := s.under(ctx, "cut", object{"drop": "before"}, object{"times": 2})
		return all(err, want("attempts", calls, 3))
	})
	s.check("retry: a JIT answer that is lost makes the repeated call collide with itself", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "lost")
		if err != nil {
			return err
		}
		if err := (control{u.server}).fault(ctx, object{"preset": "jit-lost-answer"}); err != nil {
			return err
		}
		_, err = u.jit(ctx, "lost")
		found, findErr := u.client.GetRunnerByName(ctx, "lost")
		if findErr != nil || found == nil {
			return fmt.Errorf("the runner is not there: %v", findErr)
		}
		return all(typed(err, scaleset.RunnerExistsError), want("its set", found.RunnerScaleSetID, u.set.ID))
	})
	s.check("retry: registration is tried again after 401 and 403, other calls are not", func(ctx context.Context) error {
		for _, status := range []int{401, 403} {
			name := fmt.Sprintf("registration-%d", status)
			if err := (control{s.Push}).fault(ctx, on("runner-registration",
				object{"status": status, "body": `{"message":"not yet"}`}, object{"times": 4})); err != nil {
				return err
			}
			if _, err := s.ready(ctx, s.Push, name); err != nil {
				return fmt.Errorf("%d: %w", status, err)
			}
			calls, err := control{s.Push}.calls(ctx, name, "runner-registration")
			if err := all(err, want("attempts", calls, 5)); err != nil {
				return err
			}
		}
		defer control{s.Push}.heal()
		if err := (control{s.Push}).fault(ctx, on("runner-registration", object{"status": 401, "body": `{"message":"never"}`}, nil)); err != nil {
			return err
		}
		_, err := s.ready(ctx, s.Push, "registration-never")
		return refused(err, "401", "never")
	})
	s.check("errors: text is shown, HTML is shown as unreadable, nothing is 'unknown error'", func(ctx context.Context) error {
		for says, action := range map[string]object{
			"example plain text":                      {"status": 400, "body": "example plain text", "content_type": "text/plain"},
			"failed to unmarshal error response body": {"status": 400, "body": "<html></html>", "content_type": "text/html"},
			"unknown error":                           {"status": 404},
		} {
			_, err := s.under(ctx, "bodies", action, nil)
			if err := refused(err, says, "activity_id=", "github_request_id="); err != nil {
				return err
			}
		}
		return nil
	})
	s.check("errors: a byte order mark is no trouble, an empty or cut success is", func(ctx context.Context) error {
		if _, err := s.under(ctx, "bom", object{"twist": "bom"}, nil); err != nil {
			return err
		}
		_, empty := s.under(ctx, "empty", object{"twist": "empty"}, nil)
		_, cut := s.under(ctx, "cut-body", object{"twist": "cut"}, nil)
		return all(refused(empty, "EOF"), refused(cut, "unexpected EOF"))
	})
	s.check("errors: an attempt that takes too long ends in the client's own time-out", func(ctx context.Context) error {
		_, err := s.under(ctx, "slow", object{"delay_s": 3}, nil, scaleset.WithTimeout(200*time.Millisecond), scaleset.WithRetryMax(1))
		return refused(err, "giving up after 2 attempt(s)", "Client.Timeout exceeded")
	})
	s.check("client: a retrying client of one's own counts and waits as it was told", func(ctx context.Context) error {
		own := retryablehttp.NewClient()
		own.RetryMax, own.RetryWaitMin, own.RetryWaitMax = 1, time.Millisecond, time.Millisecond
		calls, err := s.under(ctx, "own", object{"status": 503}, object{"times": 1}, scaleset.WithRetryableHTTPClint(own))
		return all(err, want("attempts", calls, 2))
	})
	s.check("client: the logger hears requests and never a token; nil is silent", func(ctx context.Context) error {
		var heard bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&heard, &slog.HandlerOptions{Level: slog.LevelDebug}))
		if _, err := s.under(ctx, "log", object{"status": 503}, object{"times": 1}, scaleset.WithLogger(logger)); err != nil {
			return err
		}
		if _, err := s.under(ctx, "silent", object{"status": 503}, object{"times": 1}, scaleset.WithLogger(nil)); err != nil {
			return err
		}
		text := heard.String()
		return all(want("retry line", strings.Contains(text, "retrying request"), true),
			want("token in the log", strings.Contains(text, s.Token), false))
	})
}

// under asks for a scale set while a fault is on that call; the number of calls that arrived.
func (s *suite) under(ctx context.Context, name string, action, more object, options ...scaleset.HTTPOption) (int, error) {
	u, err := s.ready(ctx, s.Push, name, options...)
	if err != nil {
		return 0, err
	}
	defer control{s.Push}.heal()
	if err := (control{s.Push}).fault(ctx, on("get-scale-set", action, more)); err != nil {
		return 0, err
	}
	before, err := control{s.Push}.calls(ctx, name, "get-scale-set")
	if err != nil {
		return 0, err
	}
	_, asked := u.client.GetRunnerScaleSetByID(ctx, u.set.ID)
	after, err := control{s.Push}.calls(ctx, name, "get-scale-set")
	if err != nil {
		return 0, err
	}
	return after - before, asked
}
