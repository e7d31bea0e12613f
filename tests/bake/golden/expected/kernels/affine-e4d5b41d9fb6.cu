using T = float;
constexpr int block = 64;
constexpr int vec = 1;
constexpr bool relu = true;

extern "C" __global__ void __launch_bounds__(block)
affine(T* y, const T* x, float alpha, int rows, int cols)
{
    const int row = blockIdx.x;
    const int begin = (blockIdx.y * block + threadIdx.x) * vec;
    for (int i = 0; i < vec; ++i) {
        if (row < rows && begin + i < cols) {
            const float value = alpha * static_cast<float>(x[row * cols + begin + i]);
            y[row * cols + begin + i] = static_cast<T>(relu && value < 0 ? 0.0f : value);
        }
    }
}
