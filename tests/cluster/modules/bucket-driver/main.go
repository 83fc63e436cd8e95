// A CSI driver whose buckets are folders of this machine: it stands in for those of the clouds.
//
// A pod's volume is the folder of its bucket, mounted as the kubelet asks. What the drivers of
// Cloud Storage FUSE and of Mountpoint for S3 refuse, this one refuses, too.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	name, node, buckets, socket string
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (d *driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	bucket := request.VolumeContext["bucketName"]
	if bucket == "" {
		return nil, status.Error(codes.InvalidArgument, "VolumeContext bucketName must be provided")
	}
	folder := filepath.Join(d.buckets, filepath.Base(bucket))
	readOnly := request.Readonly

	options := strings.Split(request.VolumeContext["mountOptions"], ",")
	for _, option := range append(options, request.VolumeCapability.GetMount().GetMountFlags()...) {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "", "implicit-dirs", "allow-delete":
		case "ro":
			readOnly = true
		case "only-dir":
			folder = filepath.Join(folder, filepath.Clean("/"+value))
		default:
			return nil, status.Errorf(codes.InvalidArgument, "mount option %q is not known", option)
		}
	}
	if _, err := os.Stat(folder); err != nil {
		return nil, status.Errorf(codes.NotFound, "failed to get GCS bucket %q: googleapi: Error 404: The specified bucket does not exist., notFound", bucket)
	}
	return &csi.NodePublishVolumeResponse{}, mount(folder, request.TargetPath, readOnly)
}

func mount(folder, target string, readOnly bool) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(folder, target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	return syscall.Mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
}

func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := syscall.Unmount(request.TargetPath, 0); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return nil, err
	}
	if err := os.Remove(request.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// The kubelet finds the driver by a socket in its plugins_registry, and asks who it is.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver *driver
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.driver.name,
		Endpoint:          r.driver.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, answer *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !answer.PluginRegistered {
		log.Fatalf("the kubelet refuses the driver: %s", answer.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func serve(socket string, register func(*grpc.Server)) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		log.Fatal(err)
	}
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	log.Fatal(server.Serve(listener))
}

func main() {
	d := &driver{}
	kubelet := flag.String("kubelet", "", "The root folder of the kubelet")
	flag.StringVar(&d.name, "driver", "", "The name of the driver")
	flag.StringVar(&d.node, "node", "", "The name of the cluster node")
	flag.StringVar(&d.buckets, "buckets", "", "The folder with a folder for each bucket")
	flag.Parse()

	d.socket = filepath.Join(*kubelet, "plugins", d.name, "csi.sock")
	go serve(d.socket, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, d)
		csi.RegisterNodeServer(server, d)
	})
	serve(filepath.Join(*kubelet, "plugins_registry", d.name+".sock"), func(server *grpc.Server) {
		registration.RegisterRegistrationServer(server, &registrar{driver: d})
	})
}
