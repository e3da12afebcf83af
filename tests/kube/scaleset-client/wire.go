package main

import (
	"context"
	"fmt"

	"github.com/actions/scaleset"
)

// wireChecks is the one scene that our own client plays too (tests/kubernetes/test_go_client.py):
// the same calls in the same order, so that the recorded requests can be laid side by side.
func wireChecks(s *suite) {
	s.check("the scene that both clients play", func(ctx context.Context) error {
		client, err := scaleset.NewClientWithPersonalAccessToken(scaleset.NewClientWithPersonalAccessTokenConfig{
			GitHubConfigURL: s.Acquire + "/scene", PersonalAccessToken: s.Token,
			SystemInfo: scaleset.SystemInfo{System: "scene", Version: "1", CommitSHA: "c", ScaleSetID: 1, Subsystem: "play"},
		}, quick()...)
		if err != nil {
			return err
		}
		if _, err := client.GetRunnerGroupByName(ctx, "default"); err != nil {
			return err
		}
		if _, err := client.GetRunnerScaleSet(ctx, 1, "the scene"); err != nil {
			return err
		}
		set, err := client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{
			Name: "the scene", RunnerGroupID: 1, RunnerSetting: scaleset.RunnerSetting{DisableUpdate: true},
			Labels: []scaleset.Label{{Name: "the scene"}, {Name: "x64"}},
		})
		if err != nil {
			return err
		}
		if _, err := client.GetRunnerScaleSetByID(ctx, set.ID); err != nil {
			return err
		}
		if _, err := client.UpdateRunnerScaleSet(ctx, set.ID, &scaleset.RunnerScaleSet{Name: "scene"}); err != nil {
			return err
		}
		made, err := client.GenerateJitRunnerConfig(ctx, &scaleset.RunnerScaleSetJitRunnerSetting{Name: "actor"}, set.ID)
		if err != nil {
			return err
		}
		if _, err := client.GetRunner(ctx, made.Runner.ID); err != nil {
			return err
		}
		if _, err := client.GetRunnerByName(ctx, "actor"); err != nil {
			return err
		}
		if err := client.RemoveRunner(ctx, int64(made.Runner.ID)); err != nil {
			return err
		}
		session, err := client.MessageSessionClient(ctx, set.ID, "the owner")
		if err != nil {
			return err
		}
		if err := playQueue(ctx, s, session); err != nil {
			return err
		}
		return all(session.Close(ctx), client.DeleteRunnerScaleSet(ctx, set.ID))
	})
}

func playQueue(ctx context.Context, s *suite, session *scaleset.MessageSessionClient) error {
	if err := (control{s.Acquire}).queue(ctx, "scene", "x64", 1); err != nil {
		return err
	}
	message, err := session.GetMessage(ctx, 0, 3)
	if err != nil || message == nil || len(message.JobAvailableMessages) != 1 {
		return fmt.Errorf("offer %+v, %v", message, err)
	}
	if _, err := session.AcquireJobs(ctx, []int64{message.JobAvailableMessages[0].RunnerRequestID}); err != nil {
		return err
	}
	if err := session.DeleteMessage(ctx, message.MessageID); err != nil {
		return err
	}
	if err := (control{s.Acquire}).fault(ctx, on("poll", object{"status": 401}, object{"times": 1})); err != nil {
		return err
	}
	// Refused, renewed, asked again: with the cursor of the message before.
	assigned, err := session.GetMessage(ctx, message.MessageID, 3)
	if err != nil || assigned == nil {
		return fmt.Errorf("assigned %+v, %v", assigned, err)
	}
	return session.DeleteMessage(ctx, assigned.MessageID)
}
