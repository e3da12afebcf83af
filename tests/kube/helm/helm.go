//go:build helm

// Package helm pins Helm's command line: `make kube` builds it from here.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
