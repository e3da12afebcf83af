package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/actions/scaleset"
	"github.com/actions/scaleset/listener"
)

// listenerChecks: GitHub's own listener runs whole flows, with runners that we play.
func listenerChecks(s *suite) {
	s.check("listener: a config without id, with bad limits, or no client is refused", func(context.Context) error {
		client := &scaleset.MessageSessionClient{}
		_, noClient := listener.New(nil, listener.Config{ScaleSetID: 1})
		_, noID := listener.New(client, listener.Config{})
		_, negative := listener.New(client, listener.Config{ScaleSetID: 1, MaxRunners: -1})
		_, above := listener.New(client, listener.Config{ScaleSetID: 1, MaxRunners: 1 << 31})
		whole := listener.Config{ScaleSetID: 1, MaxRunners: 5}
		return all(refused(noClient, "client is required"), refused(noID, "scaleSetID is required"),
			refused(negative, "maxRunners"), refused(above, "maxRunners"), whole.Validate())
	})
	s.check("listener: 12 jobs on at most 4 runners, all done, nothing left over", func(ctx context.Context) error {
		f, err := newFleet(ctx, s, s.Push, 4)
		if err != nil {
			return err
		}
		return f.run(ctx, 12, nil)
	})
	s.check("listener: the same with jobs that must be acquired", func(ctx context.Context) error {
		f, err := newFleet(ctx, s, s.Acquire, 4)
		if err != nil {
			return err
		}
		return f.run(ctx, 12, nil)
	})
	s.check("listener: more runners are used once it is told that it may", func(ctx context.Context) error {
		f, err := newFleet(ctx, s, s.Push, 1)
		if err != nil {
			return err
		}
		return f.run(ctx, 20, func(l *listener.Listener) {
			l.SetMaxRunners(6)
			f.mu.Lock()
			f.limit = 6
			f.mu.Unlock()
		})
	})
	s.check("listener: a handler's error ends it; the message was acknowledged before", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "broken-handler")
		if err != nil {
			return err
		}
		session, err := u.session(ctx)
		if err != nil {
			return err
		}
		l, err := listener.New(session, listener.Config{ScaleSetID: u.set.ID, MaxRunners: 1}, listener.WithMetricsRecorder(nil))
		if err != nil {
			return err
		}
		if err := (control{u.server}).queue(ctx, u.org, u.name, 1); err != nil {
			return err
		}
		broken := errors.New("no room")
		ended := l.Run(ctx, brokenScaler{broken})
		message, err := session.GetMessage(ctx, 0, 1)
		if err != nil || message != nil {
			return fmt.Errorf("message %+v, %v", message, err)
		}
		return all(typed(ended, broken), session.Close(ctx))
	})
}

// brokenScaler fails as soon as a job is assigned.
type brokenScaler struct{ err error }

func (b brokenScaler) HandleJobStarted(context.Context, *scaleset.JobStarted) error     { return b.err }
func (b brokenScaler) HandleJobCompleted(context.Context, *scaleset.JobCompleted) error { return b.err }
func (b brokenScaler) HandleDesiredRunnerCount(_ context.Context, count int) (int, error) {
	if count > 0 {
		return 0, b.err
	}
	return 0, nil
}

// fleet scales as a scaler of the client's own examples does: it starts what is missing, and a
// runner goes when its job is completed.
type fleet struct {
	*setup
	mu        sync.Mutex
	limit     int
	alive     int
	peak      int
	named     int
	started   int
	completed int
	results   map[string]int
	recorded  map[string]int
	errs      []error
	work      sync.WaitGroup
	done      context.CancelFunc
	wanted    int
}

func newFleet(ctx context.Context, s *suite, server string, limit int) (*fleet, error) {
	u, err := s.ready(ctx, server, "listener")
	if err != nil {
		return nil, err
	}
	return &fleet{setup: u, limit: limit, results: map[string]int{}, recorded: map[string]int{}}, nil
}

func (f *fleet) run(ctx context.Context, jobs int, midway func(*listener.Listener)) error {
	session, err := f.session(ctx)
	if err != nil {
		return err
	}
	l, err := listener.New(session, listener.Config{ScaleSetID: f.set.ID, MaxRunners: f.limit}, listener.WithMetricsRecorder(f))
	if err != nil {
		return err
	}
	if err := (control{f.server}).queue(ctx, f.org, f.name, jobs); err != nil {
		return err
	}
	running, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	f.done, f.wanted = cancel, jobs
	if midway != nil {
		time.AfterFunc(50*time.Millisecond, func() { midway(l) })
	}
	ended := l.Run(running, f)
	f.work.Wait()
	return all(typed(ended, context.Canceled), errors.Join(f.errs...), f.judge(ctx, jobs), session.Close(ctx))
}

// judge looks at both sides: what the listener heard, and what the server knows.
func (f *fleet) judge(ctx context.Context, jobs int) error {
	known, err := control{f.server}.jobs(ctx, f.set.ID)
	if err != nil {
		return err
	}
	done := 0
	for _, each := range known {
		if each.State == "completed" && each.Result == "succeeded" {
			done++
		}
	}
	violations, err := control{f.server}.violations(ctx)
	if err != nil {
		return err
	}
	set, err := f.client.GetRunnerScaleSetByID(ctx, f.set.ID)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return all(want("jobs done, says the server", done, jobs), want("violations", violations, 0),
		want("started", f.started, jobs), want("completed", f.completed, jobs),
		want("succeeded", f.results["succeeded"], jobs),
		want("started, recorded", f.recorded["started"], jobs), want("completed, recorded", f.recorded["completed"], jobs),
		want("desired, recorded", f.recorded["desired"] > 0, true), want("statistics, recorded", f.recorded["statistics"] > 0, true),
		want("peak is within the limit", f.peak <= f.limit, true), want("more than one runner at a time", f.peak > 1, true),
		want("left at GitHub", *set.Statistics, scaleset.RunnerScaleSetStatistic{}))
}

func (f *fleet) HandleDesiredRunnerCount(ctx context.Context, count int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := min(count, f.limit)
	for f.alive < target {
		f.alive++
		f.named++
		f.peak = max(f.peak, f.alive)
		f.work.Add(1)
		go f.runner(context.WithoutCancel(ctx), fmt.Sprintf("%s-r%d", f.org, f.named))
	}
	return target, nil
}

func (f *fleet) HandleJobStarted(_ context.Context, started *scaleset.JobStarted) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started++
	if started.RunnerName == "" || started.RunnerID == 0 {
		f.errs = append(f.errs, fmt.Errorf("started without a runner: %+v", started))
	}
	return nil
}

func (f *fleet) HandleJobCompleted(_ context.Context, completed *scaleset.JobCompleted) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.completed++
	f.results[completed.Result]++
	f.alive--
	if f.completed == f.wanted {
		f.done()
	}
	return nil
}

// runner is one runner's whole life: registered, started, one job, gone.
func (f *fleet) runner(ctx context.Context, name string) {
	defer f.work.Done()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := func() error {
		made, err := f.jit(ctx, name)
		if err != nil {
			return err
		}
		process, err := startRunner(ctx, made.EncodedJITConfig)
		if err != nil {
			return err
		}
		jobID := ""
		for jobID == "" && err == nil {
			jobID, err = process.take(ctx)
		}
		if err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		return process.finish(ctx, jobID, "succeeded")
	}()
	if err != nil {
		f.mu.Lock()
		f.errs = append(f.errs, fmt.Errorf("%s: %w", name, err))
		f.mu.Unlock()
	}
}

func (f *fleet) record(what string) {
	f.mu.Lock()
	f.recorded[what]++
	f.mu.Unlock()
}

func (f *fleet) RecordStatistics(*scaleset.RunnerScaleSetStatistic) { f.record("statistics") }
func (f *fleet) RecordJobStarted(*scaleset.JobStarted)              { f.record("started") }
func (f *fleet) RecordJobCompleted(*scaleset.JobCompleted)          { f.record("completed") }
func (f *fleet) RecordDesiredRunners(int)                           { f.record("desired") }
