#!/bin/bash
# manifests.sh: writes deploy/kubernetes/ingero.yaml, the plain manifests, from the Helm
# chart with its default values.
set -euo pipefail
cd "$(dirname "$0")/.."
helm=helm.sh/helm/v3/cmd/helm@v3.22.0

{
	cat <<-'EOF'
		# ingero on every GPU node: kubectl apply -f ingero.yaml
		# Made by tools/manifests.sh from the Helm chart in deploy/helm/ingero, whose values.yaml
		# says what can be set and why.
		---
		apiVersion: v1
		kind: Namespace
		metadata:
		  name: ingero
		  labels:
		    # It needs the host's processes and capabilities, which the others forbid.
		    pod-security.kubernetes.io/enforce: privileged
	EOF
	go run "$helm" template ingero deploy/helm/ingero --namespace ingero --kube-version 1.30.0
} >"${1:-deploy/kubernetes/ingero.yaml}"
