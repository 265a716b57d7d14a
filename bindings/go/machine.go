package arraybridge

// #include "bridge.h"
import "C"

// Version is "MAJOR.MINOR.PATCH" of the library that is loaded.
func Version() (string, error) {
	if err := Load(); err != nil {
		return "", err
	}
	return C.GoString(C.ab_version()), nil
}

// BackendInfo is a backend that the library has, usable or not.
type BackendInfo struct {
	Name      string
	Available bool
	Detail    string // version and library, or why it is not available
}

// Backends lists the backends of the library.
func Backends() ([]BackendInfo, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	var found [16]C.ab_backend_info
	found[0].struct_size = C.sizeof_ab_backend_info
	var count C.size_t
	failure := newError()
	if err := check(C.ab_list_backends(nil, &found[0], C.size_t(len(found)), &count, &failure), &failure); err != nil {
		return nil, err
	}
	var backends []BackendInfo
	for index := 0; index < int(count) && index < len(found); index++ {
		backend := &found[index]
		backends = append(backends, BackendInfo{
			Name:      C.GoString(&backend.name[0]),
			Available: backend.available == 1,
			Detail:    C.GoString(&backend.detail[0]),
		})
	}
	return backends, nil
}

// DeviceInfo is a device that can be used here.
type DeviceInfo struct {
	Device      Device
	Name        string
	Backend     string
	TotalMemory uint64 // bytes; 0: unknown
	FreeMemory  uint64 // bytes that are free or can be freed at once; 0: unknown
}

// Devices lists the devices that can be used here. It starts their drivers.
func Devices() ([]DeviceInfo, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	var found [64]C.ab_device_info
	found[0].struct_size = C.sizeof_ab_device_info
	var count C.size_t
	failure := newError()
	if err := check(C.ab_list_devices(nil, &found[0], C.size_t(len(found)), &count, &failure), &failure); err != nil {
		return nil, err
	}
	var devices []DeviceInfo
	for index := 0; index < int(count) && index < len(found); index++ {
		device := &found[index]
		devices = append(devices, DeviceInfo{
			Device:      Device{DeviceType(device.device.device_type), int32(device.device.device_id)},
			Name:        C.GoString(&device.name[0]),
			Backend:     C.GoString(&device.backend[0]),
			TotalMemory: uint64(device.total_memory),
			FreeMemory:  uint64(device.free_memory),
		})
	}
	return devices, nil
}
