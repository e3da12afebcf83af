package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/actions/scaleset"
)

// scaleSetChecks: runner groups, and the life of a scale set.
func scaleSetChecks(s *suite) {
	s.check("group: the default one is 1, a named one is found, an unknown one is not", func(ctx context.Context) error {
		client, err := s.client(s.Push+"/acme", "groups")
		if err != nil {
			return err
		}
		first, err := client.GetRunnerGroupByName(ctx, scaleset.DefaultRunnerGroup)
		if err != nil {
			return err
		}
		named, err := client.GetRunnerGroupByName(ctx, "big machines")
		if err != nil {
			return err
		}
		_, err = client.GetRunnerGroupByName(ctx, "nobody")
		return all(want("id", first.ID, 1), want("isDefaultGroup", first.IsDefault, true),
			want("name", named.Name, "big machines"), want("isDefaultGroup", named.IsDefault, false),
			refused(err, `no runner group found with name "nobody"`, "activity_id="))
	})
	s.check("scale set: none of that name is no error", func(ctx context.Context) error {
		client, err := s.client(s.Push+"/acme", "sets")
		if err != nil {
			return err
		}
		set, err := client.GetRunnerScaleSet(ctx, 1, "nobody")
		if set != nil {
			return fmt.Errorf("found %+v", set)
		}
		return err
	})
	s.check("scale set: created with its name as label, found by name and by id", func(ctx context.Context) error {
		client, err := s.client(s.Push+"/acme", "sets")
		if err != nil {
			return err
		}
		asked := &scaleset.RunnerScaleSet{
			Name: "first set", RunnerGroupID: 1, RunnerSetting: scaleset.RunnerSetting{DisableUpdate: true},
		}
		made, err := client.CreateRunnerScaleSet(ctx, asked)
		if err != nil {
			return err
		}
		byName, err := client.GetRunnerScaleSet(ctx, 1, "first set")
		if err != nil {
			return err
		}
		byID, err := client.GetRunnerScaleSetByID(ctx, made.ID)
		if err != nil {
			return err
		}
		for _, each := range []*scaleset.RunnerScaleSet{made, byName, byID} {
			if err := sameSet(each, made.ID); err != nil {
				return err
			}
		}
		return nil
	})
	s.check("scale set: own labels become System labels, nothing is added", func(ctx context.Context) error {
		client, err := s.client(s.Push+"/acme", "sets")
		if err != nil {
			return err
		}
		made, err := client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{
			Name: "labelled", Labels: []scaleset.Label{{Name: "linux"}, {Name: "x64"}},
		})
		if err != nil {
			return err
		}
		return want("labels", fmt.Sprint(made.Labels), "[{System linux} {System x64}]")
	})
	s.check("scale set: one without name and label is refused before any call", func(ctx context.Context) error {
		client, err := s.client(s.Push+"/acme", "nameless")
		if err != nil {
			return err
		}
		_, err = client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{})
		calls, countErr := control{s.Push}.calls(ctx, "nameless", "registration-token")
		return all(refused(err, "must have a name or at least one label"), countErr, want("calls", calls, 0))
	})
	s.check("scale set: the same name again is refused with 409 and the exception's name", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "sets")
		if err != nil {
			return err
		}
		_, err = u.client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{Name: u.name})
		return refused(err, "409 Conflict", "RunnerScaleSetExistsException", "already exists")
	})
	s.check("scale set: renamed and moved to another group one after the other", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "sets")
		if err != nil {
			return err
		}
		group, err := u.client.GetRunnerGroupByName(ctx, "big machines")
		if err != nil {
			return err
		}
		named, err := u.client.UpdateRunnerScaleSet(ctx, u.set.ID, &scaleset.RunnerScaleSet{Name: "renamed"})
		if err != nil {
			return err
		}
		moved, err := u.client.UpdateRunnerScaleSet(ctx, u.set.ID, &scaleset.RunnerScaleSet{RunnerGroupID: group.ID})
		if err != nil {
			return err
		}
		found, err := u.client.GetRunnerScaleSet(ctx, group.ID, "renamed")
		if err != nil || found == nil {
			return fmt.Errorf("not found in its new group: %v", err)
		}
		return all(want("name", named.Name, "renamed"), want("group", named.RunnerGroupID, 1),
			want("group", moved.RunnerGroupID, group.ID), want("group name", moved.RunnerGroupName, "big machines"),
			want("name", moved.Name, "renamed"), want("created", moved.CreatedOn, u.set.CreatedOn),
			want("labels", fmt.Sprint(moved.Labels), fmt.Sprint(u.set.Labels)), want("id", found.ID, u.set.ID))
	})
	s.check("scale set: new labels replace the old ones", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "sets")
		if err != nil {
			return err
		}
		changed, err := u.client.UpdateRunnerScaleSet(ctx, u.set.ID, &scaleset.RunnerScaleSet{
			Labels: []scaleset.Label{{Name: "gpu"}},
		})
		if err != nil {
			return err
		}
		return want("labels", fmt.Sprint(changed.Labels), "[{System gpu}]")
	})
	s.check("scale set: an unknown id is 404 for get, update, delete, session and JIT", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "sets")
		if err != nil {
			return err
		}
		const nobody = 999_999
		_, get := u.client.GetRunnerScaleSetByID(ctx, nobody)
		_, update := u.client.UpdateRunnerScaleSet(ctx, nobody, &scaleset.RunnerScaleSet{Name: "x"})
		remove := u.client.DeleteRunnerScaleSet(ctx, nobody)
		_, session := u.client.MessageSessionClient(ctx, nobody, "judge")
		_, jit := u.client.GenerateJitRunnerConfig(ctx, &scaleset.RunnerScaleSetJitRunnerSetting{Name: "x"}, nobody)
		for _, each := range []error{get, update, remove, session, jit} {
			if err := refused(each, "404 Not Found", "RunnerScaleSetNotFoundException"); err != nil {
				return err
			}
		}
		return nil
	})
	s.check("scale set: another organization's is not seen", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "sets")
		if err != nil {
			return err
		}
		other, err := s.client(s.Push+"/stranger", "sets")
		if err != nil {
			return err
		}
		found, err := other.GetRunnerScaleSet(ctx, 1, u.name)
		if found != nil || err != nil {
			return fmt.Errorf("found %+v, %v", found, err)
		}
		_, err = other.GetRunnerScaleSetByID(ctx, u.set.ID)
		return refused(err, "404 Not Found")
	})
	s.check("scale set: deleted, it is gone, and deleting it again is 404", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.Push, "sets")
		if err != nil {
			return err
		}
		if err := u.client.DeleteRunnerScaleSet(ctx, u.set.ID); err != nil {
			return err
		}
		found, err := u.client.GetRunnerScaleSet(ctx, 1, u.name)
		if found != nil || err != nil {
			return fmt.Errorf("still there: %+v, %v", found, err)
		}
		return refused(u.client.DeleteRunnerScaleSet(ctx, u.set.ID), "404 Not Found")
	})
}

func sameSet(set *scaleset.RunnerScaleSet, id int) error {
	age := time.Since(set.CreatedOn)
	if age < -time.Minute || age > time.Minute {
		return fmt.Errorf("createdOn is %v", set.CreatedOn)
	}
	if !strings.HasPrefix(set.RunnerJitConfigURL, "http") {
		return fmt.Errorf("runnerJitConfigUrl is %q, not a URL", set.RunnerJitConfigURL)
	}
	if set.Statistics == nil {
		return fmt.Errorf("no statistics")
	}
	return all(want("id", set.ID, id), want("name", set.Name, "first set"),
		want("group", set.RunnerGroupID, 1), want("group name", set.RunnerGroupName, "Default"),
		want("labels", fmt.Sprint(set.Labels), "[{System first set}]"),
		want("disableUpdate", set.RunnerSetting.DisableUpdate, true),
		want("statistics", *set.Statistics, scaleset.RunnerScaleSetStatistic{}))
}
