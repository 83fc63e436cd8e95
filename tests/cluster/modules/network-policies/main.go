// Enforces NetworkPolicies on a cluster node: kube-network-policies, with a kubeconfig.
//
// Its own rules need a kernel with nft_queue; the rules of iptables that pass packets to its queue
// are those of tests/cluster/policies.py.
package main

import (
	"context"
	"flag"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "The kubeconfig of the API server")
	node := flag.String("hostname-override", "", "The name of the cluster node")
	klog.InitFlags(nil)
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	shared := informers.NewSharedInformerFactory(client, 0)
	controller, err := networkpolicy.NewController(
		client,
		shared.Networking().V1().NetworkPolicies(),
		shared.Core().V1().Namespaces(),
		shared.Core().V1().Pods(),
		nil, nil, nil, nil,
		networkpolicy.Config{NodeName: *node, QueueID: 100},
	)
	if err != nil {
		klog.Fatal(err)
	}

	shared.Start(context.Background().Done())
	klog.Fatal(controller.Run(context.Background()))
}
