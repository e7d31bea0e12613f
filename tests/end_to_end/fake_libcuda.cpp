// A driver with one H100, as far as a build asks: facts, and no way to run anything. Built by the tests as libcuda.so.1.
#include <cstdlib>
#include <cstring>

extern "C" {

int cuDriverGetVersion(int* version) {
    const char* told = std::getenv("FAKE_CUDA_VERSION");  // 13000 for CUDA 13.0
    *version = told ? std::atoi(told) : 13000;
    return 0;
}

int cuInit(unsigned) {
    return 0;
}

int cuDeviceGetCount(int* count) {
    *count = 1;
    return 0;
}

int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char* name, int bytes, int) {
    std::strncpy(name, "NVIDIA H100 80GB HBM3", bytes);
    return 0;
}

int cuDeviceGetUuid_v2(void* uuid, int) {
    std::memset(uuid, 7, 16);
    return 0;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
    *bytes = std::size_t(80) << 30;
    return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 16: *value = 132; return 0;       // SMs
        case 36: *value = 2619000; return 0;   // memory clock in kHz
        case 37: *value = 5120; return 0;      // memory bus in bits
        case 38: *value = 50 << 20; return 0;  // L2
        case 75: *value = 9; return 0;         // compute capability
        case 76: *value = 0; return 0;
        case 97: *value = 232448; return 0;    // shared memory a block may opt in to
        default: return 1;
    }
}

}
