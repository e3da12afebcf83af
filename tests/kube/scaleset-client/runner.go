package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// runner is a runner process without a process: it speaks the runner protocol of the pretended
// GitHub (docs/fake-github.md) with what it finds in a JIT configuration.
type runner struct {
	server  string
	secret  string
	session string
}

type jitFiles struct {
	AgentName  string `json:"agentName"`
	AgentID    int    `json:"agentId"`
	ServerURL  string `json:"serverUrl"`
	WorkFolder string `json:"workFolder"`
}

// openJIT takes a JIT configuration apart as a runner does.
func openJIT(encoded string) (files jitFiles, secret string, err error) {
	var parts map[string]string
	if err = decode64(encoded, &parts); err != nil {
		return files, "", err
	}
	if parts[".credentials"] == "" {
		return files, "", fmt.Errorf("no .credentials in %d parts", len(parts))
	}
	var key struct {
		D string `json:"d"`
	}
	if err = decode64(parts[".credentials_rsaparams"], &key); err != nil {
		return files, "", err
	}
	err = decode64(parts[".runner"], &files)
	return files, key.D, err
}

func decode64(text string, into any) error {
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, into)
}

// startRunner connects; from then on it is online.
func startRunner(ctx context.Context, encoded string) (*runner, error) {
	files, secret, err := openJIT(encoded)
	if err != nil {
		return nil, err
	}
	r := &runner{server: files.ServerURL, secret: secret}
	var answer struct {
		SessionID string `json:"sessionId"`
	}
	_, err = r.call(ctx, http.MethodPost, "/sessions", object{"nonce": files.AgentName, "version": "2.999.0"}, &answer)
	r.session = answer.SessionID
	return r, err
}

// take waits for a job and starts it; "" when none came.
func (r *runner) take(ctx context.Context) (string, error) {
	var offered struct {
		JobID string `json:"jobId"`
	}
	status, err := r.call(ctx, http.MethodGet, "/sessions/"+r.session+"/job", nil, &offered)
	if err != nil || status == http.StatusNoContent {
		return "", err
	}
	_, err = r.call(ctx, http.MethodPost, "/sessions/"+r.session+"/jobs/"+offered.JobID+"/start", object{}, nil)
	return offered.JobID, err
}

func (r *runner) finish(ctx context.Context, jobID, result string) error {
	path := "/sessions/" + r.session + "/jobs/" + jobID + "/finish"
	_, err := r.call(ctx, http.MethodPost, path, object{"result": result}, nil)
	return err
}

func (r *runner) call(ctx context.Context, method, path string, body, into any) (int, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.server+"/runner"+path, sent)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+r.secret)
	req.Header.Set("User-Agent", "runnerscale-demo-runner/judge")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, fmt.Errorf("runner %s %s: %s: %s", method, path, resp.Status, text)
	}
	if into == nil || len(text) == 0 {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.Unmarshal(text, into)
}
