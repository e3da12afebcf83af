package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/actions/scaleset"
)

// runnerChecks: JIT configurations, and runners by id and by name.
func runnerChecks(s *suite) {
	s.check("JIT: the answer names the runner, and a runner can start with it", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "jit")
		if err != nil {
			return err
		}
		made, err := u.client.GenerateJitRunnerConfig(ctx,
			&scaleset.RunnerScaleSetJitRunnerSetting{Name: "r-1", WorkFolder: "_elsewhere"}, u.set.ID)
		if err != nil {
			return err
		}
		files, secret, err := openJIT(made.EncodedJITConfig)
		if err != nil {
			return err
		}
		if made.Runner == nil || made.Runner.ID == 0 || secret == "" {
			return fmt.Errorf("runner %+v", made.Runner)
		}
		_, err = startRunner(ctx, made.EncodedJITConfig)
		return all(want("scale set", made.Runner.RunnerScaleSetID, u.set.ID), want("name", made.Runner.Name, "r-1"),
			want("agent", files.AgentID, made.Runner.ID), want("agent name", files.AgentName, "r-1"),
			want("work folder", files.WorkFolder, "_elsewhere"), err)
	})
	s.check("JIT: the same name again is the error 'runner exists'", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "jit")
		if err != nil {
			return err
		}
		if _, err := u.jit(ctx, "twice"); err != nil {
			return err
		}
		_, err = u.jit(ctx, "twice")
		return all(typed(err, scaleset.RunnerExistsError), refused(err, "409 Conflict", "twice"))
	})
	s.check("runner: found by id and by name; an unknown name is none, an unknown id is 'runner not found'",
		func(ctx context.Context) error {
			u, err := s.ready(ctx, s.Push, "runners")
			if err != nil {
				return err
			}
			made, err := u.jit(ctx, "known")
			if err != nil {
				return err
			}
			byID, err := u.client.GetRunner(ctx, made.Runner.ID)
			if err != nil {
				return err
			}
			byName, err := u.client.GetRunnerByName(ctx, "known")
			if err != nil {
				return err
			}
			nobody, err := u.client.GetRunnerByName(ctx, "nobody")
			if nobody != nil || err != nil {
				return fmt.Errorf("found %+v, %v", nobody, err)
			}
			_, err = u.client.GetRunner(ctx, 999_999)
			return all(want("by id", *byID, *made.Runner), want("by name", *byName, *made.Runner),
				typed(err, scaleset.RunnerNotFoundError))
		})
	s.check("runner: removed while idle it is gone; unknown ids, 0 too, are removed without error",
		func(ctx context.Context) error {
			u, err := s.ready(ctx, s.Push, "runners")
			if err != nil {
				return err
			}
			made, err := u.jit(ctx, "idle")
			if err != nil {
				return err
			}
			if err := u.client.RemoveRunner(ctx, int64(made.Runner.ID)); err != nil {
				return err
			}
			found, err := u.client.GetRunnerByName(ctx, "idle")
			if found != nil || err != nil {
				return fmt.Errorf("still there: %+v, %v", found, err)
			}
			return all(u.client.RemoveRunner(ctx, 0), u.client.RemoveRunner(ctx, 999_999))
		})
	s.check("runner: with a job it stays ('job still running'); when the job is done it is forgotten", busyRunner(s))
	s.check("runner: a refusal that GitHub makes up is heard as 'job still running' too", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "runners")
		if err != nil {
			return err
		}
		made, err := u.jit(ctx, "said-to-be-busy")
		if err != nil {
			return err
		}
		defer control{s.Push}.heal()
		if err := (control{s.Push}).fault(ctx, object{"preset": "job-still-running", "times": 1}); err != nil {
			return err
		}
		first := u.client.RemoveRunner(ctx, int64(made.Runner.ID))
		return all(typed(first, scaleset.JobStillRunningError), u.client.RemoveRunner(ctx, int64(made.Runner.ID)))
	})
}

func busyRunner(s *suite) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "busy")
		if err != nil {
			return err
		}
		session, err := u.session(ctx)
		if err != nil {
			return err
		}
		if err := (control{u.server}).queue(ctx, u.org, u.name, 1); err != nil {
			return err
		}
		if _, err := session.GetMessage(ctx, 0, 1); err != nil {
			return err
		}
		made, err := u.jit(ctx, "busy")
		if err != nil {
			return err
		}
		process, err := startRunner(ctx, made.EncodedJITConfig)
		if err != nil {
			return err
		}
		jobID, err := process.take(ctx)
		if err != nil || jobID == "" {
			return fmt.Errorf("no job: %v", err)
		}
		set, err := u.client.GetRunnerScaleSetByID(ctx, u.set.ID)
		if err != nil {
			return err
		}
		counted := want("statistics", *set.Statistics, scaleset.RunnerScaleSetStatistic{
			TotalAssignedJobs: 1, TotalRunningJobs: 1, TotalRegisteredRunners: 1, TotalBusyRunners: 1,
		})
		kept := u.client.RemoveRunner(ctx, int64(made.Runner.ID))
		if err := process.finish(ctx, jobID, "succeeded"); err != nil {
			return err
		}
		_, err = u.client.GetRunner(ctx, made.Runner.ID)
		if !errors.Is(err, scaleset.RunnerNotFoundError) {
			return fmt.Errorf("the runner is not forgotten after its job: %v", err)
		}
		return all(counted, typed(kept, scaleset.JobStillRunningError), session.Close(ctx))
	}
}
