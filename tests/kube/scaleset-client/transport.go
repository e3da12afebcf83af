package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actions/scaleset"
)

// transportChecks: certificates, proxies, and the hosts of github.com and of data residency.
func transportChecks(s *suite) {
	s.check("TLS: a private root is refused at once, and trusted when it is given", func(ctx context.Context) error {
		begun := time.Now()
		_, err := s.ready(ctx, s.TLS, "tls")
		var unknown x509.UnknownAuthorityError
		if !errors.As(err, &unknown) || time.Since(begun) > 2*time.Second {
			return fmt.Errorf("not 'unknown authority' at once: %v", err)
		}
		_, foreign := s.ready(ctx, s.TLS, "tls", scaleset.WithRootCAs(pool(s.ForeignCA)))
		if !errors.As(foreign, &unknown) {
			return fmt.Errorf("a foreign root was trusted: %v", foreign)
		}
		u, err := s.ready(ctx, s.TLS, "tls", scaleset.WithRootCAs(pool(s.RootCA)))
		if err != nil {
			return err
		}
		return wholeSession(ctx, u, "https://")
	})
	s.check("TLS: without verification it works as well, and a session may have its own options", func(ctx context.Context) error {
		u, err := s.ready(ctx, s.TLS, "tls", scaleset.WithoutTLSVerify())
		if err != nil {
			return err
		}
		return wholeSession(ctx, u, "https://", scaleset.WithoutTLSVerify(), scaleset.WithTimeout(20*time.Second))
	})
	s.check("debug text: says whether a proxy and a root are set", func(context.Context) error {
		plain, err := s.client(s.Push+"/acme", "debug")
		if err != nil {
			return err
		}
		rich, err := s.client(s.Push+"/acme", "debug", scaleset.WithRootCAs(pool(s.RootCA)), scaleset.WithProxy(http.ProxyFromEnvironment))
		if err != nil {
			return err
		}
		return all(want("plain", strings.HasPrefix(plain.DebugInfo(), `{"has_proxy":false,"has_root_ca":false,`), true),
			want("rich", strings.HasPrefix(rich.DebugInfo(), `{"has_proxy":true,"has_root_ca":true,`), true))
	})
	for host, names := range map[string]string{
		"http://github.com/org":             "api.github.com broker.actions.githubusercontent.com",
		"http://www.github.com/org":         "api.github.com broker.actions.githubusercontent.com",
		"http://github.localhost/org":       "api.github.localhost broker.actions.github.localhost",
		"http://acme.ghe.com/org/app":       "api.acme.ghe.com broker.actions.acme.ghe.com",
		"http://ghes.example/enterprises/e": "ghes.example ghes.example",
	} {
		s.check("proxy: "+host+" is served through one, all calls", func(ctx context.Context) error {
			proxy := newProxy(s.Push)
			defer proxy.Close()
			client, err := s.client(host, "proxied", scaleset.WithProxy(proxy.choose))
			if err != nil {
				return err
			}
			s.places++
			set, err := client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{Name: fmt.Sprintf("proxied-%d", s.places)})
			if err != nil {
				return err
			}
			session, err := client.MessageSessionClient(ctx, set.ID, "judge")
			if err != nil {
				return err
			}
			if _, err := session.GetMessage(ctx, 0, 1); err != nil {
				return err
			}
			api, service, _ := strings.Cut(names, " ")
			first, last := proxy.hosts()
			return all(session.Close(ctx), want("first host", first, api),
				want("host of the service", wellKnown(last), wellKnown(service)))
		})
	}
	s.check("proxy: HTTPS goes through CONNECT, and the session too", func(ctx context.Context) error {
		proxy := newProxy(s.TLS)
		defer proxy.Close()
		base := "https://ghes.example"
		s.places++
		org := fmt.Sprintf("org-%d", s.places)
		client, err := s.client(base+"/"+org, "connect", scaleset.WithProxy(proxy.choose), scaleset.WithRootCAs(pool(s.RootCA)))
		if err != nil {
			return err
		}
		set, err := client.CreateRunnerScaleSet(ctx, &scaleset.RunnerScaleSet{Name: "connect"})
		if err != nil {
			return err
		}
		err = wholeSession(ctx, &setup{suite: s, client: client, set: set}, base)
		return all(err, want("tunnels were made", proxy.tunnels.Load() > 0, true))
	})
	s.check("proxy: one that does not answer is an error that names it", func(ctx context.Context) error {
		dead, _ := url.Parse("http://127.0.0.1:1")
		_, err := s.ready(ctx, s.Push, "dead-proxy", scaleset.WithRetryMax(1),
			scaleset.WithProxy(func(*http.Request) (*url.URL, error) { return dead, nil }))
		return refused(err, "proxyconnect", "giving up after 2 attempt(s)")
	})
}

func wellKnown(host string) string {
	host, _, _ = strings.Cut(host, ":")
	return host
}

func wholeSession(ctx context.Context, u *setup, begins string, options ...scaleset.HTTPOption) error {
	session, err := u.session(ctx, options...)
	if err != nil {
		return err
	}
	queue := session.Session().MessageQueueURL
	_, err = session.GetMessage(ctx, 0, 1)
	return all(err, want("queue URL begins with "+begins, strings.HasPrefix(queue, begins), true), session.Close(ctx))
}

func pool(path string) *x509.CertPool {
	certificates := x509.NewCertPool()
	if !certificates.AppendCertsFromPEM([]byte(file(path))) {
		panic("no certificate in " + path)
	}
	return certificates
}

// proxy is a forward proxy behind which every host is the one pretended GitHub.
type proxy struct {
	*httptest.Server
	target  *url.URL
	seen    atomic.Pointer[[]string]
	tunnels atomic.Int32
}

func newProxy(server string) *proxy {
	target, err := url.Parse(server)
	if err != nil {
		panic(err)
	}
	p := &proxy{target: target}
	p.seen.Store(&[]string{})
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p
}

func (p *proxy) choose(*http.Request) (*url.URL, error) { return url.Parse(p.URL) }

func (p *proxy) hosts() (first, last string) {
	seen := *p.seen.Load()
	return seen[0], seen[len(seen)-1]
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.tunnel(w)
		return
	}
	seen := append(append([]string{}, *p.seen.Load()...), r.Host)
	p.seen.Store(&seen) // one client, one call at a time
	forward := &httputil.ReverseProxy{Rewrite: func(out *httputil.ProxyRequest) {
		out.Out.URL.Scheme, out.Out.URL.Host = p.target.Scheme, p.target.Host
		out.Out.Host = out.In.Host
	}}
	forward.ServeHTTP(w, r)
}

func (p *proxy) tunnel(w http.ResponseWriter) {
	p.tunnels.Add(1)
	there, err := net.Dial("tcp", p.target.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	go func() {
		_, _ = io.Copy(there, buffered)
		_ = there.Close()
	}()
	_, _ = io.Copy(here, there)
	_ = here.Close()
}
