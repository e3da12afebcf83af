package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/actions/scaleset"
)

// authChecks: config URLs, personal access tokens, GitHub Apps, what a client says of itself.
func authChecks(s *suite) {
	s.check("config URL: organization, repository and enterprise are let in", func(ctx context.Context) error {
		for _, path := range []string{"/acme", "/acme/", "/acme/app", "/enterprises/big", "/ENTERPRISES/big"} {
			client, err := s.client(s.Push+path, "auth")
			if err != nil {
				return err
			}
			if _, err := client.GetRunnerGroupByName(ctx, "default"); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	})
	s.check("config URL: no path and three parts are refused before any call", func(context.Context) error {
		for _, path := range []string{"", "/", "/some/random/path"} {
			_, err := s.client(s.Push+path, "auth")
			if !errors.Is(err, scaleset.ErrInvalidGitHubConfigURL) {
				return fmt.Errorf("%q: %v", path, err)
			}
		}
		return nil
	})
	s.check("token: an unknown one is refused with 401 and GitHub's words", func(ctx context.Context) error {
		client, err := scaleset.NewClientWithPersonalAccessToken(scaleset.NewClientWithPersonalAccessTokenConfig{
			GitHubConfigURL: s.Push + "/acme", PersonalAccessToken: "ghp_wrong", SystemInfo: info("auth"),
		}, quick()...)
		if err != nil {
			return err
		}
		_, err = client.GetRunnerGroupByName(ctx, "default")
		return refused(err, "401 Unauthorized", "Bad credentials", "activity_id=", "github_request_id=")
	})
	for form, path := range map[string]string{"PKCS#1": s.KeyPKCS1, "PKCS#8": s.KeyPKCS8} {
		s.check("app: a key as "+form+" is let in, and the set it makes is there", func(ctx context.Context) error {
			client, err := s.app(s.Installation, s.AppID, file(path))
			if err != nil {
				return err
			}
			name := "app-" + strings.ToLower(strings.ReplaceAll(form, "#", ""))
			set, err := client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{Name: name})
			if err != nil {
				return err
			}
			return client.DeleteRunnerScaleSet(ctx, set.ID)
		})
	}
	s.check("app: a foreign key, id or installation is refused by GitHub", func(ctx context.Context) error {
		for says, make := range map[string]func() (*scaleset.Client, error){
			"key": func() (*scaleset.Client, error) { return s.app(s.Installation, s.AppID, file(s.ForeignKey)) },
			"id":  func() (*scaleset.Client, error) { return s.app(s.Installation, "Iv1.unknown", file(s.KeyPKCS1)) },
		} {
			client, err := make()
			if err != nil {
				return err
			}
			_, err = client.GetRunnerGroupByName(ctx, "default")
			if err := refused(err, "failed to get access token for GitHub App auth (401 Unauthorized)"); err != nil {
				return fmt.Errorf("%s: %w", says, err)
			}
		}
		client, err := s.app(s.Installation+1, s.AppID, file(s.KeyPKCS1))
		if err != nil {
			return err
		}
		_, err = client.GetRunnerGroupByName(ctx, "default")
		return refused(err, "404 Not Found")
	})
	s.check("app: text that is no key fails before any call", func(ctx context.Context) error {
		client, err := s.app(s.Installation, s.AppID, "no key")
		if err != nil {
			return err
		}
		_, err = client.GetRunnerGroupByName(ctx, "default")
		return refused(err, "failed to parse RSA private key from PEM")
	})
	s.check("app: all three values are needed", func(context.Context) error {
		whole := scaleset.GitHubAppAuth{ClientID: "1", InstallationID: 2, PrivateKey: "k"}
		noID, noInstallation, noKey := whole, whole, whole
		noID.ClientID, noInstallation.InstallationID, noKey.PrivateKey = "", 0, ""
		return all(whole.Validate(), refused(noID.Validate(), "client ID"),
			refused(noInstallation.Validate(), "installation ID"), refused(noKey.Validate(), "private key"))
	})
	s.check("system info: changed at once, shown in the debug text, counted by the server", func(ctx context.Context) error {
		client, err := s.client(s.Push+"/acme", "before")
		if err != nil {
			return err
		}
		changed := info("after")
		changed.ScaleSetID = 10
		client.SetSystemInfo(changed)
		if err := want("system info", client.SystemInfo(), changed); err != nil {
			return err
		}
		if _, err := client.GetRunnerGroupByName(ctx, "default"); err != nil {
			return err
		}
		before, err := control{s.Push}.calls(ctx, "before", "find-groups")
		if err != nil {
			return err
		}
		after, err := control{s.Push}.calls(ctx, "after", "find-groups")
		if err != nil {
			return err
		}
		agent := `\"scale_set_id\":10,\"subsystem\":\"after\",\"build_version\":\"v0.4.0\"`
		if debug := client.DebugInfo(); !strings.Contains(debug, agent) {
			return fmt.Errorf("debug text: %s", debug)
		}
		return all(want("calls as 'before'", before, 0), want("calls as 'after'", after, 1))
	})
}

func (s *suite) app(installation int64, id, key string) (*scaleset.Client, error) {
	return scaleset.NewClientWithGitHubApp(scaleset.ClientWithGitHubAppConfig{
		GitHubConfigURL: s.Push + "/acme",
		GitHubAppAuth:   scaleset.GitHubAppAuth{ClientID: id, InstallationID: installation, PrivateKey: key},
		SystemInfo:      info("app"),
	}, quick()...)
}
