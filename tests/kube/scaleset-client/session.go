package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/actions/scaleset"
	"github.com/google/uuid"
)

// sessionChecks: the one session of a scale set, its queue, and what is in a message.
func sessionChecks(s *suite) {
	s.check("session: opened, it names its set, owner, queue and statistics", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "session")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		opened := client.Session()
		if opened.SessionID == uuid.Nil || opened.MessageQueueAccessToken == "" || opened.Statistics == nil {
			return errors.New("session id, token or statistics are missing")
		}
		if !strings.HasPrefix(opened.MessageQueueURL, "http") {
			return fmt.Errorf("queue URL %q", opened.MessageQueueURL)
		}
		return all(want("owner", opened.OwnerName, "judge"), want("set", opened.RunnerScaleSet.ID, u.set.ID),
			want("name", opened.RunnerScaleSet.Name, u.name), client.Close(ctx))
	})
	s.check("session: a second one is refused with 409 while the first lives, and let in after", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "session")
		if err != nil {
			return err
		}
		first, err := u.session(ctx)
		if err != nil {
			return err
		}
		_, conflict := u.session(ctx)
		if err := first.Close(ctx); err != nil {
			return err
		}
		second, err := u.session(ctx)
		if err != nil {
			return err
		}
		return all(refused(conflict, "409 Conflict", "RunnerScaleSetSessionConflictException", "judge"), second.Close(ctx))
	})
	s.check("session: closed twice, polled or acknowledged after its end is 400 'session expired'", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "session")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		if err := client.Close(ctx); err != nil {
			return err
		}
		_, poll := client.GetMessage(ctx, 0, 1)
		for _, each := range []error{client.Close(ctx), poll, client.DeleteMessage(ctx, 1)} {
			if err := refused(each, "400 Bad Request", "RunnerScaleSetSessionExpiredException"); err != nil {
				return err
			}
		}
		return nil
	})
	s.check("poll: without news it is held, then there is no message and no error", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "poll")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		begun := time.Now()
		message, err := client.GetMessage(ctx, 0, 10)
		held := time.Since(begun)
		if message != nil || err != nil || held < time.Duration(s.HoldS)*time.Second-100*time.Millisecond {
			return fmt.Errorf("%+v, %v after %v", message, err, held)
		}
		return client.Close(ctx)
	})
	s.check("poll: a cancelled one ends at once with the cancellation", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "poll")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err = client.GetMessage(short, 0, 1)
		if since := time.Since(begun); since > 800*time.Millisecond {
			return fmt.Errorf("it took %v", since)
		}
		return all(typed(err, context.DeadlineExceeded), client.Close(ctx))
	})
	s.check("poll: no more jobs are given than the capacity says; 0 gets none", capacityCheck(s))
	s.check("poll: a negative capacity is refused with 400", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "poll")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		_, err = client.GetMessage(ctx, 0, -1)
		return all(refused(err, "400 Bad Request", "X-ScaleSetMaxCapacity"), client.Close(ctx))
	})
	s.check("message: assigned, started and completed carry the job's fields and times", jobLife(s))
	s.check("message: not acknowledged it comes again, also to the next session, with the same id", redelivery(s))
	s.check("message: a type that the client does not know is passed over", func(ctx context.Context) error {
		u, client, message, err := s.spoilt(ctx, "unknown-message-type")
		if err != nil {
			return err
		}
		defer control{u.server}.heal()
		return all(want("assigned", len(message.JobAssignedMessages), 0), client.DeleteMessage(ctx, message.MessageID),
			client.Close(ctx))
	})
	s.check("message: an envelope of another type, and one that is no array, are errors that say so", func(ctx context.Context) error {
		for preset, says := range map[string]string{
			"unknown-envelope-type": "unsupported message type", "malformed-envelope": "failed to unmarshal batched messages",
			"malformed-message": "could not decode job started message",
		} {
			u, _, _, err := s.spoilt(ctx, preset)
			control{u.server}.heal()
			if err := refused(err, says); err != nil {
				return fmt.Errorf("%s: %w", preset, err)
			}
		}
		return nil
	})
}

func (s *suite) spoilt(ctx context.Context, preset string) (*setup, *scaleset.MessageSessionClient, *scaleset.RunnerScaleSetMessage, error) {
	u, err := s.ready(ctx, s.Push, "spoilt")
	if err != nil {
		return &setup{server: s.Push}, nil, nil, err
	}
	client, err := u.session(ctx)
	if err != nil {
		return u, nil, nil, err
	}
	if err := (control{u.server}).fault(ctx, object{"preset": preset, "scale_set": u.name}); err != nil {
		return u, nil, nil, err
	}
	message, err := client.GetMessage(ctx, 0, 1)
	if message == nil && err == nil {
		err = errors.New("no message came")
	}
	return u, client, message, err
}

func capacityCheck(s *suite) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "capacity")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		if err := (control{u.server}).queue(ctx, u.org, u.name, 5); err != nil {
			return err
		}
		none, err := client.GetMessage(ctx, 0, 0)
		if err != nil {
			return err
		}
		if none != nil && none.Statistics.TotalAssignedJobs != 0 {
			return fmt.Errorf("assigned with capacity 0: %+v", none.Statistics)
		}
		two, err := client.GetMessage(ctx, 0, 2)
		if err != nil || two == nil {
			return fmt.Errorf("no message: %v", err)
		}
		return all(want("assigned", two.Statistics.TotalAssignedJobs, 2),
			want("messages", len(two.JobAssignedMessages), 2), client.Close(ctx))
	}
}

func jobLife(s *suite) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "messages")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		if err := (control{u.server}).queue(ctx, u.org, u.name, 1); err != nil {
			return err
		}
		last := 0
		next := func() (*scaleset.RunnerScaleSetMessage, error) {
			message, err := client.GetMessage(ctx, last, 1)
			if err != nil || message == nil {
				return nil, fmt.Errorf("no message: %v", err)
			}
			if message.MessageID <= last || message.Statistics == nil {
				return nil, fmt.Errorf("id %d after %d, statistics %v", message.MessageID, last, message.Statistics)
			}
			last = message.MessageID
			return message, client.DeleteMessage(ctx, last)
		}
		first, err := next()
		if err != nil {
			return err
		}
		made, err := u.jit(ctx, "worker")
		if err != nil {
			return err
		}
		process, err := startRunner(ctx, made.EncodedJITConfig)
		if err != nil {
			return err
		}
		jobID, err := process.take(ctx)
		if err != nil {
			return err
		}
		second, err := next()
		if err != nil {
			return err
		}
		if err := process.finish(ctx, jobID, "failed"); err != nil {
			return err
		}
		third, err := next()
		if err != nil {
			return err
		}
		if len(first.JobAssignedMessages) != 1 || len(second.JobStartedMessages) != 1 || len(third.JobCompletedMessages) != 1 {
			return fmt.Errorf("%+v / %+v / %+v", first, second, third)
		}
		assigned, started, completed := first.JobAssignedMessages[0], second.JobStartedMessages[0], third.JobCompletedMessages[0]
		return all(commonFields(u, jobID, &assigned.JobMessageBase), commonFields(u, jobID, &started.JobMessageBase),
			commonFields(u, jobID, &completed.JobMessageBase),
			want("assigned: runner time is zero", assigned.RunnerAssignTime.IsZero(), true),
			want("started: runner", started.RunnerName, "worker"), want("started: id", started.RunnerID, made.Runner.ID),
			want("started: runner time", started.RunnerAssignTime.Before(started.ScaleSetAssignTime), false),
			want("started: finish time is zero", started.FinishTime.IsZero(), true),
			want("completed: result", completed.Result, "failed"), want("completed: runner", completed.RunnerName, "worker"),
			want("completed: finish time", completed.FinishTime.Before(completed.RunnerAssignTime), false),
			want("statistics at the end", *third.Statistics, scaleset.RunnerScaleSetStatistic{}), client.Close(ctx))
	}
}

func commonFields(u *setup, jobID string, base *scaleset.JobMessageBase) error {
	if base.WorkflowRunID == 0 || base.QueueTime.IsZero() || base.ScaleSetAssignTime.Before(base.QueueTime) {
		return fmt.Errorf("run %d, queued %v, assigned %v", base.WorkflowRunID, base.QueueTime, base.ScaleSetAssignTime)
	}
	if !strings.HasPrefix(base.JobWorkflowRef, u.org+"/app/.github/workflows/") || !strings.Contains(base.JobWorkflowRef, "@refs/") {
		return fmt.Errorf("jobWorkflowRef is %q", base.JobWorkflowRef)
	}
	return all(want("job", base.JobID, jobID), want("owner", base.OwnerName, u.org), want("repository", base.RepositoryName, "app"),
		want("labels", fmt.Sprint(base.RequestLabels), "["+u.name+"]"), want("request id", base.RunnerRequestID, int64(0)),
		want("has a display name", strings.HasPrefix(base.JobDisplayName, "build"), true),
		want("has an event", base.EventName != "", true))
}

func redelivery(s *suite) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "redelivery")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		if err := (control{u.server}).queue(ctx, u.org, u.name, 1); err != nil {
			return err
		}
		first, err := client.GetMessage(ctx, 0, 1)
		if err != nil || first == nil {
			return fmt.Errorf("no message: %v", err)
		}
		again, err := client.GetMessage(ctx, 0, 1)
		if err != nil || again == nil {
			return fmt.Errorf("not delivered again: %v", err)
		}
		passed, err := client.GetMessage(ctx, first.MessageID, 1)
		if err != nil || passed != nil {
			return fmt.Errorf("behind the cursor: %+v, %v", passed, err)
		}
		if err := client.Close(ctx); err != nil {
			return err
		}
		heir, err := u.session(ctx)
		if err != nil {
			return err
		}
		inherited, err := heir.GetMessage(ctx, 0, 1)
		if err != nil || inherited == nil {
			return fmt.Errorf("not inherited: %v", err)
		}
		acknowledged := all(heir.DeleteMessage(ctx, first.MessageID), heir.DeleteMessage(ctx, first.MessageID))
		empty, err := heir.GetMessage(ctx, 0, 1)
		if err != nil || empty != nil {
			return fmt.Errorf("still there after its acknowledgement: %+v, %v", empty, err)
		}
		return all(want("id again", again.MessageID, first.MessageID), want("id inherited", inherited.MessageID, first.MessageID),
			want("assigned in the session", heir.Session().Statistics.TotalAssignedJobs, 1), acknowledged, heir.Close(ctx))
	}
}

// tokenChecks: the queue token and the admin token run out, or are refused.
func tokenChecks(s *suite) {
	s.check("queue token: expired, it is renewed by poll, acknowledgement and acquiring alike", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Acquire, "queue-token")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		seen := map[string]bool{client.Session().MessageQueueAccessToken: true}
		steps := []func() error{
			func() error { _, err := client.GetMessage(ctx, 0, 1); return err },
			func() error { return client.DeleteMessage(ctx, 1) },
			func() error { _, err := client.AcquireJobs(ctx, []int64{}); return err },
		}
		for place, operation := range []string{"poll", "acknowledge", "acquire-jobs"} {
			if err := (control{u.server}).fault(ctx, on(operation, object{"status": 401}, object{"times": 1})); err != nil {
				return err
			}
			if err := steps[place](); err != nil {
				return fmt.Errorf("%s: %w", operation, err)
			}
			token := client.Session().MessageQueueAccessToken
			if seen[token] {
				return fmt.Errorf("%s: the token is not a new one", operation)
			}
			seen[token] = true
		}
		refreshes, err := control{u.server}.calls(ctx, "queue-token", "refresh-session")
		return all(err, want("refreshes", refreshes, 3), client.Close(ctx))
	})
	s.check("queue token: refused twice is the error 'message queue token expired'", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Acquire, "queue-token-dead")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		defer control{u.server}.heal()
		for _, operation := range []string{"poll", "acknowledge", "acquire-jobs"} {
			if err := (control{u.server}).fault(ctx, on(operation, object{"status": 401}, nil)); err != nil {
				return err
			}
		}
		_, poll := client.GetMessage(ctx, 0, 1)
		_, acquire := client.AcquireJobs(ctx, []int64{1})
		return all(typed(poll, scaleset.MessageQueueTokenExpiredError), typed(acquire, scaleset.MessageQueueTokenExpiredError),
			typed(client.DeleteMessage(ctx, 1), scaleset.MessageQueueTokenExpiredError))
	})
	s.check("queue token: one that really runs out is 401, and the renewed one works", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Short, "short-queue")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		time.Sleep(2100 * time.Millisecond) // queue_token_life_s of that server is 2
		if _, err := client.GetMessage(ctx, 0, 1); err != nil {
			return err
		}
		refreshes, err := control{u.server}.calls(ctx, "short-queue", "refresh-session")
		return all(err, want("refreshes", refreshes, 1), client.Close(ctx))
	})
	s.check("queue token: when the session is gone, refreshing is refused too and says so", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "session-gone")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		for _, preset := range []string{"token-expired", "session-lost"} {
			if err := (control{u.server}).fault(ctx, object{"preset": preset, "scale_set": u.name}); err != nil {
				return err
			}
		}
		_, err = client.GetMessage(ctx, 0, 1)
		return refused(err, "RunnerScaleSetSessionExpiredException")
	})
	s.check("admin token: within a minute of its end it is renewed before each call", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Short, "short-admin")
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := u.client.GetRunnerScaleSetByID(ctx, u.set.ID); err != nil {
				return err
			}
		}
		made, err := control{u.server}.calls(ctx, "short-admin", "runner-registration")
		return all(err, want("registrations", made, 4))
	})
	s.check("admin token: with an hour to go it is fetched once", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "long-admin")
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := u.client.GetRunnerScaleSetByID(ctx, u.set.ID); err != nil {
				return err
			}
		}
		made, err := control{u.server}.calls(ctx, "long-admin", "runner-registration")
		return all(err, want("registrations", made, 1))
	})
	s.check("admin token: made worthless by GitHub, the service answers 401 and its exception", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "dead-admin")
		if err != nil {
			return err
		}
		if err := (control{u.server}).fault(ctx, object{"preset": "token-expired", "scale_set": u.name}); err != nil {
			return err
		}
		_, err = u.client.GetRunnerScaleSetByID(ctx, u.set.ID)
		return refused(err, "401 Unauthorized", "VssUnauthorizedException")
	})
}

// acquireChecks: the older way, in which jobs are offered and claimed.
func acquireChecks(s *suite) {
	s.check("acquire: offers are claimed by id, once; claimed jobs are assigned", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Acquire, "acquire")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		if err := (control{u.server}).queue(ctx, u.org, u.name, 3); err != nil {
			return err
		}
		offer, err := client.GetMessage(ctx, 0, 10)
		if err != nil || offer == nil || len(offer.JobAvailableMessages) != 3 {
			return fmt.Errorf("offer %+v, %v", offer, err)
		}
		ids := []int64{}
		for _, each := range offer.JobAvailableMessages {
			if each.RunnerRequestID == 0 || !strings.HasPrefix(each.AcquireJobURL, "http") {
				return fmt.Errorf("request id %d, acquireJobUrl %q", each.RunnerRequestID, each.AcquireJobURL)
			}
			ids = append(ids, each.RunnerRequestID)
		}
		if err := client.DeleteMessage(ctx, offer.MessageID); err != nil {
			return err
		}
		two, err := client.AcquireJobs(ctx, ids[:2])
		if err != nil {
			return err
		}
		assigned, err := client.GetMessage(ctx, offer.MessageID, 10)
		if err != nil || assigned == nil {
			return fmt.Errorf("no message after acquiring: %v", err)
		}
		return all(want("acquired", fmt.Sprint(two), fmt.Sprint(ids[:2])),
			want("available", offer.Statistics.TotalAvailableJobs, 3),
			want("assigned", assigned.Statistics.TotalAssignedJobs, 2),
			want("messages", len(assigned.JobAssignedMessages), 2), client.Close(ctx))
	})
	s.check("acquire: none, nil and unknown ids give an empty list", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Acquire, "acquire")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		for _, ids := range [][]int64{{}, nil, {4711}} {
			got, err := client.AcquireJobs(ctx, ids)
			if err != nil || len(got) != 0 {
				return fmt.Errorf("%v: %v, %v", ids, got, err)
			}
		}
		return client.Close(ctx)
	})
	s.check("acquire: in push mode the router knows no such path", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "acquire")
		if err != nil {
			return err
		}
		client, err := u.session(ctx)
		if err != nil {
			return err
		}
		_, err = client.AcquireJobs(ctx, []int64{1})
		return all(refused(err, "404 Not Found", "404 page not found"), client.Close(ctx))
	})
}
